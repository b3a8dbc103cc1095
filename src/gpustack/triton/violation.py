"""A finding about a model repository, and questions about its files that no name can make fail."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from pathlib import Path


class Violation(Struct, frozen=True, kw_only=True):
    """A fault or a warning (``severity`` "error", "warning"), with its place and its fix."""

    severity: str
    place: str
    message: str
    fix: str = ""


def fault(place: str, message: str, fix: str = "") -> Violation:
    return Violation(severity="error", place=place, message=message, fix=fix)


def warning(place: str, message: str, fix: str = "") -> Violation:
    return Violation(severity="warning", place=place, message=message, fix=fix)


def spelled(path: Path) -> str:
    """The name of a file as text: bytes in it that are no UTF-8 are written as escapes."""
    return os.fsencode(path.name).decode("utf-8", "backslashreplace")


def is_there(path: Path) -> bool:
    """Whether something exists; a name that no file can have, in a configuration or a link, names nothing."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def is_file(path: Path) -> bool:
    return is_there(path) and path.is_file()


def is_folder(path: Path) -> bool:
    return is_there(path) and path.is_dir()
