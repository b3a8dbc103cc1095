"""Which places of the tree a run changed, and what lay there before: a table in memory, rebuilt from the journal."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import PurePosixPath

from gpustack.errors import GpustackError
from gpustack.install.journal import Entry, Record
from gpustack.install.keep import Store, entry_of, look, remove, same
from gpustack.install.target import Target

IGNORED = frozenset({"/etc/ld.so.cache", "/etc/mtab", "/etc/resolv.conf", "/etc/.updated"})
"""Caches, and what the system writes by itself."""

_TICK = 20_000_000
"""Nanoseconds in which a kernel may give two changes the same time: what is as young is looked at whole again."""

Stamp = tuple[int, int, int, int]
"""Inode, time of the last change of any kind, mode and size: while they stay, the place is as it was."""


class Watch:
    """``before`` is asked ahead of a step, ``after`` behind it; ``restore`` puts back what a step changed.

    A place belongs to the step that changed it first; what lay there before that step is what comes back.
    """

    def __init__(self, target: Target, store: Store, records: Iterable[Record]) -> None:
        self._target = target
        self._store = store
        self._known: dict[str, Entry] = {}
        self.owner: dict[str, str] = {}
        self._last: dict[str, Entry] = {}
        self._seen: dict[str, dict[str, Entry]] = {}
        self._base: dict[str, Entry] | None = None
        self._stamps: dict[str, tuple[Stamp, Entry]] = {}
        for record in records:
            self._learn(record)

    def _learn(self, record: Record) -> None:
        if record.event in {"start", "kept"}:
            self._known.update(record.before)
        elif record.event == "end":
            self._own(record.step, record.changed)
        elif record.event == "undone":
            self._disown(record.step)

    def _own(self, step: str, changed: dict[str, Entry]) -> None:
        for path, entry in changed.items():
            # What nobody had seen before was not there.
            self._known.setdefault(path, Entry())
            self.owner.setdefault(path, step)
            self._last[path] = entry

    def _disown(self, step: str) -> None:
        for path in [path for path, owner in self.owner.items() if owner == step]:
            del self.owner[path]
            self._known.pop(path, None)
            self._last.pop(path, None)

    def before(self, roots: tuple[str, ...]) -> dict[str, Entry]:
        """What lies at these places and is not known yet, its contents kept. To be journaled before any change."""
        # Nothing ran since the last look, and what it found is known or owned: it need not be taken twice.
        seen = {root: self._seen[root] for root in roots if root in self._seen}
        unseen = tuple(root for root in roots if root not in seen)
        found = self._scan(unseen)
        self._base = {path: entry for one in (*seen.values(), found) for path, entry in one.items()}
        self._seen = {}
        for folder in self._absent_above(unseen):
            entry = look(self._target.place(folder))
            if entry.kind:
                found[folder] = entry
        # Of what was changed by others since we looked, the present state is the one to come back to.
        below = (path for path in self._below(unseen) if path not in found and self._known[path].kind)
        found.update((path, Entry()) for path in list(below))
        fresh = {
            path: entry
            for path, entry in found.items()
            if path not in self.owner and not ((known := self._known.get(path)) and same(known, entry))
        }
        kept = self._store.keep({path: (self._target.place(path), entry) for path, entry in fresh.items()})
        self._known.update(kept)
        return kept

    def after(self, step: str, roots: tuple[str, ...]) -> dict[str, Entry]:
        """What differs now from what was known, as it is now. To be journaled behind the step."""
        changed: dict[str, Entry] = {}
        for folder in self._absent_above(roots):
            entry = look(self._target.place(folder))
            if entry.kind:
                changed[folder] = entry
        self._own(step, changed)
        seen = {root: self._scan((root,)) for root in roots}
        found = {path: entry for one in seen.values() for path, entry in one.items()}
        for path in sorted(self._moved(found, roots)):
            entry = found.get(path, Entry())
            reference = self._last.get(path) or self._known.get(path, Entry())
            if not same(reference, entry) and not self._is_born(path):
                changed[path] = entry
                self._own(step, {path: entry})
        self._seen, self._base = seen, None
        return changed

    def _moved(self, found: dict[str, Entry], roots: tuple[str, ...]) -> set[str]:
        """The paths that may differ from what was known: those that are not the very entries of the look before."""
        base = self._base
        if base is None:
            return {*found, *self._below(roots)}
        gone = {path for path in base.keys() - found.keys() if base[path].kind}
        return gone | {path for path, entry in found.items() if base.get(path) is not entry}

    def _absent_above(self, roots: tuple[str, ...]) -> list[str]:
        """The folders above the roots that were not there and that nothing has brought yet."""
        above = {one for root in roots for one in _parents(root)}
        return sorted(
            path for path in above if path not in self.owner and path in self._known and not self._known[path].kind
        )

    def _below(self, roots: tuple[str, ...]) -> list[str]:
        heads = tuple(f"{root}/" for root in roots)
        return [path for path in self._known if path in roots or path.startswith(heads)]

    def _scan(self, roots: tuple[str, ...]) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        trusted = time.time_ns() - _TICK
        for root in roots:
            place = self._target.place(root)
            if not os.path.lexists(place):
                found.setdefault(self._topmost_absent(root), Entry())
            elif not self._is_born(root):
                entry = self._entry(root, str(place), os.lstat(place), trusted)
                found[root] = entry
                if entry.kind == "dir":
                    self._walk(root, str(place), found, trusted)
        return found

    def _topmost_absent(self, path: str) -> str:
        """The highest folder on the way to ``path``, which is not there, that is not there either."""
        missing = path
        for parent in _parents(path):
            if os.path.lexists(self._target.place(parent)):
                break
            missing = parent
        return missing

    def _is_born(self, path: str) -> bool:
        """Whether the path lies in a folder that this run brought: it goes with that folder."""
        return any(self._is_new(one) for one in _parents(path))

    def _is_new(self, path: str) -> bool:
        return path in self.owner and not self._known.get(path, Entry()).kind

    def _walk(self, folder: str, place: str, found: dict[str, Entry], trusted: int) -> None:
        """All below ``folder``, which lies at ``place``. Plain text instead of paths: this is what a step costs."""
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError), os.scandir(place) as children:
            for child in children:
                path = f"{folder}/{child.name}"
                if path in IGNORED:
                    continue
                try:
                    entry = self._entry(path, child.path, child.stat(follow_symlinks=False), trusted)
                except FileNotFoundError:
                    continue
                found[path] = entry
                if entry.kind == "dir" and not self._is_new(path):
                    self._walk(path, child.path, found, trusted)

    def _entry(self, path: str, place: str, there: os.stat_result, trusted: int) -> Entry:
        """The entry of a place: the very one of the last look where nothing was changed there since."""
        stamp = (there.st_ino, there.st_ctime_ns, there.st_mode, there.st_size)
        noted = self._stamps.get(path)
        if noted is not None and noted[0] == stamp:
            return noted[1]
        link = os.readlink(place) if stat.S_ISLNK(there.st_mode) else ""  # noqa: PTH115 (plain text, as above)
        entry = entry_of(there, link)
        if there.st_ctime_ns < trusted:
            self._stamps[path] = (stamp, entry)
        return entry

    def foreign(self) -> tuple[str, ...]:
        """The places of this run that somebody else has changed since: they are left as they are."""
        return tuple(
            path
            for path, last in self._last.items()
            if path in self.owner
            and not same(last, look(self._target.place(path)), is_moved=True)
            and look(self._target.place(path)) != self._known.get(path)
        )

    def left_by(self, step: str) -> dict[str, Entry]:
        """The places that a step changed first, as the run left them."""
        return {path: self._last[path] for path, owner in self.owner.items() if owner == step}

    def is_as_left(self, path: str) -> bool:
        """Whether a file that the run changed is as the run left it, by size, time and inode."""
        last = self._last.get(path)
        return last is not None and last.kind == "file" and same(last, look(self._target.place(path)))

    def restore(self, step: str, *, spared: Iterable[str] = ()) -> list[GpustackError]:
        """Put back all that the step changed first; what could not be put back."""
        self._seen, self._base = {}, None
        left = set(spared)
        paths = sorted(path for path, owner in self.owner.items() if owner == step and path not in left)
        troubles = []
        absent = [path for path in paths if not self._known[path].kind]
        for path in [*reversed(absent), *(path for path in paths if self._known[path].kind)]:
            place = self._target.place(path)
            if same(self._known[path], look(place), is_moved=True):
                continue
            try:
                if self._known[path].kind:
                    self._store.put_back(place, self._known[path])
                else:
                    remove(place)
            except GpustackError as error:
                troubles.append(error)
            except OSError as exc:
                troubles.append(GpustackError(f"cannot be removed: {exc.strerror or exc}", where=path))
        return troubles

    def forget(self, step: str) -> None:
        """The step has been taken back: its places belong to nobody again."""
        self._disown(step)


@cache
def _parents(path: str) -> tuple[str, ...]:
    """The folders above a path, the nearest first."""
    return tuple(map(str, PurePosixPath(path).parents))
