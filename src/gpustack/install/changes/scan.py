"""Scans folders of the tree: each place once, and again only after a change."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

from gpustack.errors import GpustackError
from gpustack.install.changes.look import entry_of
from gpustack.install.changes.names import safe
from gpustack.install.journal.records import Entry

IGNORED = frozenset({"/etc/ld.so.cache", "/etc/mtab", "/etc/resolv.conf", "/etc/.updated"})
"""Caches, and files that the system writes by itself."""

_TICK = 20_000_000
"""Nanoseconds in which a kernel may give two changes the same time: anything as recent is read again."""

_Stamp = tuple[int, int, int, int]
"""Inode, time of the last change of any kind, mode and size: while they stay, the place is unchanged."""

_GONE = (FileNotFoundError, NotADirectoryError, PermissionError)
"""Places deleted meanwhile, and folders of others that this user cannot read."""


class Scan:
    """Entries of places by their path in the tree; the same object as long as nothing changes there."""

    def __init__(self) -> None:
        self._stamps: dict[str, tuple[_Stamp, Entry]] = {}

    def below(self, root: str, place: Path, is_left_out: Callable[[str], bool]) -> dict[str, Entry]:
        """``root``, which is at ``place``, and all below it except in folders that ``is_left_out`` names.

        Raises GpustackError if a folder cannot be read.
        """
        trusted = time.time_ns() - _TICK
        at = str(place)
        try:
            found = {root: self._entry(root, at, os.lstat(at), trusted)}
        except _GONE:
            return {}
        todo = [(root, at)] if found[root].kind == "dir" else []
        while todo:
            folder, at = todo.pop()
            try:
                todo += self._children(folder, at, found, trusted, is_left_out)
            except _GONE:
                continue
            except OSError as exc:
                hint = "move it to a shorter path" if exc.errno == errno.ENAMETOOLONG else ""
                msg = f"cannot be backed up: {exc.strerror or exc}"
                raise GpustackError(msg, code="backup-failed", where=safe(at)[-200:], hint=hint) from exc
        return found

    def alone(self, path: str, place: Path) -> Entry:
        """The entry of a place, and nothing below it."""
        try:
            return self._entry(path, str(place), os.lstat(place), time.time_ns() - _TICK)
        except _GONE:
            return Entry()

    def _children(
        self, folder: str, at: str, found: dict[str, Entry], trusted: int, is_left_out: Callable[[str], bool]
    ) -> list[tuple[str, str]]:
        """The content of a folder, and the folders in it. Plain text instead of paths: this is what a step costs."""
        folders = []
        stamps = self._stamps
        with os.scandir(at) as children:
            for child in children:
                name = child.name
                path = f"{folder}/{name if name.isascii() else safe(name)}"
                if path in IGNORED:
                    continue
                try:
                    there = child.stat(follow_symlinks=False)
                    noted = stamps.get(path)
                    if noted is not None and noted[0] == (
                        there.st_ino,
                        there.st_ctime_ns,
                        there.st_mode,
                        there.st_size,
                    ):
                        entry = noted[1]
                    else:
                        entry = self._entry(path, child.path, there, trusted)
                except FileNotFoundError:
                    continue
                found[path] = entry
                if entry.kind == "dir" and not is_left_out(path):
                    folders.append((path, child.path))
        return folders

    def _entry(self, path: str, at: str, there: os.stat_result, trusted: int) -> Entry:
        """The entry of a place: that of the last look if nothing has changed since."""
        stamp = (there.st_ino, there.st_ctime_ns, there.st_mode, there.st_size)
        noted = self._stamps.get(path)
        if noted is not None and noted[0] == stamp:
            return noted[1]
        entry = entry_of(at, there)
        if there.st_ctime_ns < trusted:
            self._stamps[path] = (stamp, entry)
        return entry
