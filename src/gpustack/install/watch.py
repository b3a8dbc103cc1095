"""Which places of the tree a run changed, and what lay there before: a table in memory, rebuilt from the journal."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import PurePosixPath

from gpustack.errors import GpustackError
from gpustack.install.journal import Entry, Record
from gpustack.install.keep import Store, entry_of, look, remove, same
from gpustack.install.target import Target

IGNORED = frozenset({"/etc/ld.so.cache", "/etc/mtab", "/etc/resolv.conf", "/etc/.updated"})
"""Caches, and what the system writes by itself."""


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
        self._seen: tuple[tuple[str, ...], dict[str, Entry]] = ((), {})
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
        # Nothing ran since the last look: it need not be taken twice.
        found = self._seen[1] if self._seen[0] == roots else self._scan(roots)
        self._seen = ((), {})
        for folder in self._absent_above(roots):
            entry = look(self._target.place(folder))
            if entry.kind:
                found[folder] = entry
        # Of what was changed by others since we looked, the present state is the one to come back to.
        below = (path for path in self._below(roots) if path not in found and self._known[path].kind)
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
        found = self._scan(roots)
        for path in sorted({*found, *self._below(roots)}):
            entry = found.get(path, Entry())
            reference = self._last.get(path) or self._known.get(path, Entry())
            if not same(reference, entry) and not self._is_born(path):
                changed[path] = entry
                self._own(step, {path: entry})
        self._seen = (roots, found)
        return changed

    def _absent_above(self, roots: tuple[str, ...]) -> list[str]:
        """The folders above the roots that were not there and that nothing has brought yet."""
        above = {str(one) for root in roots for one in PurePosixPath(root).parents}
        return sorted(
            path for path in above if path not in self.owner and path in self._known and not self._known[path].kind
        )

    def _below(self, roots: tuple[str, ...]) -> list[str]:
        heads = tuple(f"{root}/" for root in roots)
        return [path for path in self._known if path in roots or path.startswith(heads)]

    def _scan(self, roots: tuple[str, ...]) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        for root in roots:
            top = self._topmost_absent(root)
            if top is not None:
                found.setdefault(top, Entry())
                continue
            if not self._is_born(root):
                found[root] = look(self._target.place(root))
                if found[root].kind == "dir":
                    self._walk(root, str(self._target.place(root)), found)
        return found

    def _topmost_absent(self, path: str) -> str | None:
        """The highest folder on the way to ``path`` that is not there, None where the path is."""
        missing = None
        place = PurePosixPath(path)
        while not os.path.lexists(self._target.place(str(place))):
            missing = str(place)
            place = place.parent
        return missing

    def _is_born(self, path: str) -> bool:
        """Whether the path lies in a folder that this run brought: it goes with that folder."""
        return any(self._is_new(str(one)) for one in PurePosixPath(path).parents)

    def _is_new(self, path: str) -> bool:
        return path in self.owner and not self._known.get(path, Entry()).kind

    def _walk(self, folder: str, place: str, found: dict[str, Entry]) -> None:
        """All below ``folder``, which lies at ``place``. Plain text instead of paths: this is what a step costs."""
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError), os.scandir(place) as children:
            for child in children:
                path = f"{folder}/{child.name}"
                if path in IGNORED:
                    continue
                try:
                    link = os.readlink(child.path) if child.is_symlink() else ""  # noqa: PTH115
                    entry = entry_of(child.stat(follow_symlinks=False), link)
                except FileNotFoundError:
                    continue
                found[path] = entry
                if entry.kind == "dir" and not self._is_new(path):
                    self._walk(path, child.path, found)

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
        self._seen = ((), {})
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
