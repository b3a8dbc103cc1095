"""The formats of a fleet's report, one module each with ``write(report)``; imported on first use."""

from __future__ import annotations

import importlib

from gpustack.model.fleet_report import FleetReport

MODULES = {"text": "text", "json": "document", "junit": "junit", "html": "html", "prometheus": "prometheus"}
"""Formats by the name that --format takes, and the module of each."""


def write(report: FleetReport, name: str) -> str:
    """The whole report as text, in a format of `MODULES`."""
    text: str = importlib.import_module(f"gpustack.fleet.writers.{MODULES[name]}").write(report)
    return text
