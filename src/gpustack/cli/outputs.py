"""Where documents go: into files that the user names, or to standard output (``-``), which takes only one."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

from gpustack.cli import frame
from gpustack.errors import GpustackError, UsageError

STANDARD = Path("-")
"""The name of standard output in place of a file."""


def demand_one(given: Mapping[str, Path | None], shown: str | None) -> bool:
    """Whether standard output is reserved for the document that the command itself shows.

    ``given`` are options that take an output file; ``shown`` is the requested format of the command's own document,
    None if none was requested. Raises UsageError if two documents would go to standard output.
    """
    there = [name for name, path in given.items() if path == STANDARD]
    if there and shown is not None:
        there.append(f"--format {shown}")
    if len(there) > 1:
        message = f"{' and '.join(there)} would both write to standard output, which accepts one document"
        raise UsageError(message, code="conflicting-options", hint=f"give {there[0]} a file")
    return not there


def save(text: str, path: Path, option: str, *, fault: type[GpustackError] | None = None) -> None:
    """Write a document to the place that ``option`` names, complete or not at all.

    Raises ``fault``, or GpustackError, on failure. For standard output see `frame.document`.
    """
    if path == STANDARD:
        frame.document(text, fault=fault)
        return
    from gpustack.system.files import write_out

    try:
        write_out(path, text)
    except (OSError, ValueError) as exc:  # ValueError: a NUL in the name
        message = f"cannot be written: {getattr(exc, 'strerror', None) or exc}"
        raise (fault or GpustackError)(
            message, code="not-writable", where=str(path), hint=f"choose another {option}"
        ) from exc


def demand_place(path: Path, cure: str) -> None:
    """Raise GpustackError, with ``cure`` as its hint, if ``save`` could not write there."""
    why = "" if path == STANDARD else _obstacle(path.resolve())
    if why:
        message = f"cannot be written: {why}"
        raise GpustackError(message, code="not-writable", where=str(path), hint=f"{cure}; nothing was changed")


def demand_lock_place(path: Path) -> None:
    """Raise UsageError where --lock would replace a file that is not a lock."""
    from gpustack.install.lock.document import is_lock

    if path != STANDARD and path.is_file() and path.stat().st_size and not is_lock(path):
        message = "is not a lock file, and would be replaced by one"
        hint = "choose another --lock, or remove the file"
        raise UsageError(message, code="unreadable-lock", where=str(path), hint=hint)


def _obstacle(place: Path) -> str:
    if place.is_dir():
        return os.strerror(errno.EISDIR)
    # A file is replaced by a new one; a device or a pipe is written to.
    written = place.parent if place.is_file() or not place.exists() else place
    if not written.exists():
        return os.strerror(errno.ENOENT)
    if os.access(written, os.W_OK):
        return "" if written == place or written.is_dir() else os.strerror(errno.ENOTDIR)
    return os.strerror(errno.EROFS if os.statvfs(written).f_flag & os.ST_RDONLY else errno.EACCES)


def folder(path: Path, option: str) -> Path:
    """The folder that the option names, to write into. Raises UsageError if it is ``-``."""
    if path == STANDARD:
        message = "- means standard output, but a folder is required"
        raise UsageError(message, code="invalid-value", where=option, hint=f"a folder of that name is {option} ./-")
    return path
