"""Paths that match a pattern. Every start needs dozens; regular expressions would make them expensive."""

from __future__ import annotations

import os
from collections.abc import Iterable


def has_wildcard(part: str) -> bool:
    return "*" in part or "?" in part or "[" in part


def glob(pattern: str, root: str | os.PathLike[str] = "/") -> list[str]:
    """The paths below ``root`` that match, sorted folder by folder; hidden names count like others.

    ``*``, ``?`` and ``[]`` match within one component. An unreadable folder holds nothing.
    """
    found = [os.fspath(root).rstrip("/")]
    parts = pattern.strip("/").split("/")
    for part in parts:
        if has_wildcard(part):
            found = [f"{head}/{name}" for head in found for name in among(_names(head or "/"), part)]
        else:
            found = [f"{head}/{part}" for head in found]
    return found if has_wildcard(parts[-1]) else [path for path in found if os.path.exists(path)]  # noqa: PTH110


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 (only names are needed)
    except OSError:
        return []


def among(names: Iterable[str], pattern: str) -> list[str]:
    """The ``names`` that match."""
    first, *others = pattern.split("*")
    if len(others) != 1 or "?" in pattern or "[" in pattern:
        return [name for name in names if matches(name, pattern)]
    (last,) = others
    least = len(first) + len(last)
    return [name for name in names if name.startswith(first) and name.endswith(last) and len(name) >= least]


def matches(name: str, pattern: str) -> bool:
    """Whether a name matches; a pattern of stars alone needs no regular expression, which is slower to compile."""
    if "?" in pattern or "[" in pattern:
        import fnmatch  # noqa: PLC0415 (few patterns need it)

        return fnmatch.fnmatchcase(name, pattern)
    first, *others = pattern.split("*")
    if not others:
        return name == pattern
    last = others.pop()
    if not name.startswith(first) or not name.endswith(last) or len(name) < len(first) + len(last):
        return False
    at, end = len(first), len(name) - len(last)
    for piece in others:
        at = name.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True
