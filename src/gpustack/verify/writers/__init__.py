"""The formats of a report, one module each with ``write(report, *, colour)``; imported on first use."""

from __future__ import annotations

import importlib
from typing import Protocol, cast

from gpustack.errors import UsageError
from gpustack.model.results import Report

MODULES = {
    "text": "text",
    "json": "document",
    "junit": "junit",
    "tap": "tap",
    "github": "github",
    "sarif": "sarif",
    "html": "html",
    "prometheus": "prometheus",
    "markdown": "markdown",
    "ctrf": "ctrf",
}
"""Formats by the name that --format takes, and the module of each."""


class Writer(Protocol):
    """What a format's module offers. ``colour`` requests terminal colours if the format supports them."""

    def __call__(self, report: Report, *, colour: bool) -> str:
        """Return the whole report as text."""


def writer(name: str) -> Writer:
    """The writer of a format. Raises UsageError for an unknown name."""
    if name not in MODULES:
        message = f"unknown report format {name!r}"
        raise UsageError(message, code="unknown-format", where="--format", hint=f"known: {', '.join(MODULES)}")
    return cast("Writer", importlib.import_module(f"gpustack.verify.writers.{MODULES[name]}").write)
