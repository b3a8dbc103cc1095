"""The folders of matrices and templates: read-only package data."""

from __future__ import annotations

import os
from contextvars import ContextVar
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parent.parent

site_templates: ContextVar[Path | None] = ContextVar("site_templates", default=None)
"""The folder of ``--templates``: a file in it replaces the built-in one of the same name."""


def is_checkout() -> bool:
    """Whether the program runs from its own repository (an editable install or ``PYTHONPATH=src``)."""
    return (_CHECKOUT / "matrices").is_dir() and (_CHECKOUT / "pyproject.toml").is_file()


def folder(name: str) -> Path:
    """The folder ``matrices``, ``templates`` or ``trusted``: that of a checkout, else the packaged copy."""
    return _CHECKOUT / name if is_checkout() else _PACKAGE / name


def template(name: str) -> str:
    """The text of ``templates/NAME``: the site's own if it has one. Raises OSError where it cannot be read."""
    site = site_templates.get()
    place = site / name if site is not None and (site / name).is_file() else folder("templates") / name
    return place.read_text(encoding="utf-8")


def compiled_folder() -> Path:
    """The folder of compiled matrices: inside an installed package, or below ``build/`` of a checkout."""
    return _CHECKOUT / "build" / "matrices" if is_checkout() else _PACKAGE / "compiled"


def cache_folder() -> Path:
    """The user's cache folder for gpustack (XDG), for a read-only checkout."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 (no error without a home)
    return Path(base) / "gpustack"
