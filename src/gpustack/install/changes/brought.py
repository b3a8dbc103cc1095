"""Folders that the run created: their content after each step, to recognize what others add later."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from gpustack.errors import GpustackError
from gpustack.install.changes.backups import remove
from gpustack.install.changes.names import safe
from gpustack.install.journal.file import sync_folder

_COMPILED = "__pycache__"
"""Python writes it whenever a program of the folder runs: nobody's work."""

_FOLDER = "folder"


def listing(folder: Path) -> dict[str, str]:
    """Everything below a folder by relative path, with size and time; links are not followed."""
    found: dict[str, str] = {}
    todo = [("", str(folder))]
    while todo:
        head, at = todo.pop()
        with suppress(OSError), os.scandir(at) as children:
            for child in children:
                if child.name == _COMPILED:
                    continue
                there = child.stat(follow_symlinks=False)
                name = f"{head}{safe(child.name)}"
                is_folder = stat.S_ISDIR(there.st_mode)
                found[name] = _FOLDER if is_folder else f"{there.st_size} {there.st_mtime_ns}"
                if is_folder:
                    todo.append((f"{name}/", child.path))
    return found


def write(file: Path, listed: dict[str, str]) -> None:
    """Keep a listing on disk before returning. Raises GpustackError."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(msgspec.msgpack.encode(listed))
            stream.flush()
            os.fsync(stream.fileno())
        sync_folder(file.parent)
    except OSError as exc:
        msg = f"cannot be written: {exc.strerror or exc}"
        raise GpustackError(
            msg, code="state-not-writable", where=str(file), hint=f"make room on the file system of {file.parent}"
        ) from exc


def strangers(folder: Path, file: Path) -> list[str]:
    """What is below the folder and differs from the listing, with its parent folders, by relative path.

    Everything if the listing is lost: leaving too much is better than removing somebody's work.
    """
    try:
        former = msgspec.msgpack.decode(file.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError):
        former = {}
    found: set[str] = set()
    for name, stamp in listing(folder).items():
        if former.get(name) != stamp:
            found.add(name)
            found.update(_above(name))
    return sorted(found)


def _above(name: str) -> Iterable[str]:
    head = name.rpartition("/")[0]
    while head:
        yield head
        head = head.rpartition("/")[0]


def prune(folder: Path, kept: Collection[str]) -> None:
    """Remove everything below a folder except these relative paths. Raises GpustackError, OSError."""
    for head, folders, files in os.walk(folder, topdown=False):
        for name in (*files, *folders):
            place = Path(head, name)
            if safe(str(place.relative_to(folder))) not in kept:
                remove(place)
