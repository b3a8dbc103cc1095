"""Which places of the tree a run changed, and what lay there before: a table in memory, rebuilt from the journal."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import PurePosixPath

from msgspec.structs import replace

from gpustack.errors import GpustackError
from gpustack.install.attributes import LABEL, is_enforced
from gpustack.install.journal import Entry, Record, sync_folder
from gpustack.install.keep import AttributesError, Store
from gpustack.install.look import content_of, is_as, look, with_sum
from gpustack.install.names import safe
from gpustack.install.scan import Scan
from gpustack.install.target import Target
from gpustack.install.targets import NAMED_IN, is_watched_alone
from gpustack.system.run import LocalRunner

_ALTERNATIVES = "/etc/alternatives/"


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
        self._look = Scan()
        self._named: set[str] | None = None
        self._read: dict[str, tuple[Entry, frozenset[str]]] = {}
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
        unseen = tuple(root for root in roots if root not in self._seen)
        looks = {root: self._seen.get(root) or self._scan(root) for root in roots}
        found = {path: entry for root in unseen for path, entry in looks[root].items()}
        self._named = self._names(looks)
        named = self._look_at(self._named)
        self._base = {path: entry for one in (*looks.values(), named) for path, entry in one.items()}
        self._seen = {}
        for folder in self._absent_above(unseen):
            entry = look(self._target.place(folder))
            if entry.kind:
                found[folder] = entry
        # Of what was changed by others since we looked, the present state is the one to come back to.
        below = (path for path in self._below(unseen) if path not in found and self._known[path].kind)
        found.update((path, Entry()) for path in list(below))
        found |= named
        fresh = {path: one for path, one in found.items() if path not in self.owner and not self._is_known(path, one)}
        counted = self._counted(fresh)
        places = self._target.places(counted)
        kept = self._store.keep({path: (places[path], entry) for path, entry in counted.items()})
        self._known.update(kept)
        return kept

    def _counted(self, fresh: dict[str, Entry]) -> dict[str, Entry]:
        """The entries with as many links as their file has names among what is watched: names elsewhere may change."""
        if not any(entry.disk for entry in fresh.values()):
            return fresh
        names = Counter((one.disk, one.inode) for one in {**self._known, **fresh}.values() if one.disk)
        return {
            path: replace(one, links=names[one.disk, one.inode]) if one.disk else one for path, one in fresh.items()
        }

    def _is_known(self, path: str, entry: Entry) -> bool:
        known = self._known.get(path)
        if known is None:
            return False
        if entry.ctime and known.ctime == entry.ctime and known.inode == entry.inode:
            return True
        return is_as(known, self._target.place(path), entry)

    def after(self, step: str, roots: tuple[str, ...]) -> dict[str, Entry]:
        """What differs now from what was known, as it is now. To be journaled behind the step."""
        changed: dict[str, Entry] = {}
        for folder in self._absent_above(roots):
            entry = look(self._target.place(folder))
            if entry.kind:
                changed[folder] = entry
        self._own(step, changed)
        looks = {root: self._scan(root) for root in roots}
        names = self._names(looks) | (self._single(roots) if self._named is None else self._named)
        named = self._look_at(names)
        found = {path: entry for one in (*looks.values(), named) for path, entry in one.items()}
        for path in sorted(self._moved(found, roots)):
            entry = found.get(path, Entry())
            reference = self._last.get(path) or self._known.get(path, Entry())
            if path in names and path not in self._known and not entry.link.startswith(_ALTERNATIVES):
                # Named since the step, of which nobody knows what lay there before it.
                continue
            place = self._target.place(path)
            if not is_as(reference, place, entry) and not self._is_born(path):
                changed[path] = replace(with_sum(str(place), entry), links=1)
                self._own(step, {path: changed[path]})
        self._seen, self._base, self._named = looks, None, None
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

    def _single(self, roots: tuple[str, ...]) -> set[str]:
        """The known places that lie in no known folder: those that were named before a crash are among them."""
        heads = tuple(f"{root}/" for root in roots)
        return {
            path
            for path in self._known
            if path.rpartition("/")[0] not in self._known and path not in roots and not path.startswith(heads)
        }

    def _scan(self, root: str) -> dict[str, Entry]:
        place = self._target.place(root)
        if not os.path.lexists(place):
            return {self._topmost_absent(root): Entry()}
        return {} if self._is_born(root) else self._look.below(root, place, self._is_new)

    def _names(self, looks: dict[str, dict[str, Entry]]) -> set[str]:
        """The places that the package manager's own files name, none of them within the roots of these looks."""
        found: set[str] = set()
        for root in NAMED_IN.keys() & looks.keys():
            for path, entry in looks[root].items():
                if entry.kind == "file":
                    found |= self._named_by(root, path, entry)
        heads = tuple(f"{root}/" for root in looks)
        return {path for path in found if path not in looks and not path.startswith(heads)}

    def _named_by(self, root: str, path: str, entry: Entry) -> frozenset[str]:
        noted = self._read.get(path)
        if noted is not None and noted[0] is entry:
            return noted[1]
        try:
            text = safe(os.fsdecode(content_of(str(self._target.place(path)), entry.size)))
        except OSError:
            return frozenset()
        names = frozenset(name for name in NAMED_IN[root](text) if is_watched_alone(name))
        self._read[path] = entry, names
        return names

    def _look_at(self, names: Iterable[str]) -> dict[str, Entry]:
        """These places alone, not what is in them."""
        return {path: self._look.alone(path, self._target.place(path)) for path in names if not self._is_born(path)}

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
        end = path.rfind("/") if self.owner else 0
        while end > 0:
            if self._is_new(path[:end]):
                return True
            end = path.rfind("/", 0, end)
        return False

    def _is_new(self, path: str) -> bool:
        return path in self.owner and not self._known.get(path, Entry()).kind

    def foreign(self) -> tuple[str, ...]:
        """The places of this run that somebody else has changed since: they are left as they are."""
        return tuple(
            path
            for path, last in self._last.items()
            if path in self.owner
            and not self._is_now(last, path, is_moved=True)
            and not ((known := self._known.get(path)) and self._is_now(known, path, is_moved=True))
        )

    def _is_now(self, was: Entry, path: str, *, is_moved: bool = False) -> bool:
        place = self._target.place(path)
        return is_as(was, place, look(place), is_moved=is_moved)

    def left_by(self, step: str) -> dict[str, Entry]:
        """The places that a step changed first, as the run left them."""
        return {path: self._last[path] for path, owner in self.owner.items() if owner == step}

    def is_as_left(self, path: str) -> bool:
        """Whether a file that the run changed is as the run left it, by size, time and inode."""
        last = self._last.get(path)
        return last is not None and last.kind == "file" and self._is_now(last, path)

    def restore(self, step: str, *, spared: Iterable[str] = ()) -> list[GpustackError]:
        """Put back all that the step changed first; what could not be put back."""
        self._seen, self._base = {}, None
        left = set(spared)
        paths = sorted(path for path, owner in self.owner.items() if owner == step and path not in left)
        troubles = []
        absent = [path for path in paths if not self._known[path].kind]
        for path in [*reversed(absent), *(path for path in paths if self._known[path].kind)]:
            if self._is_now(self._known[path], path, is_moved=True):
                continue
            try:
                self._put_back(path)
            except GpustackError as error:
                troubles.append(error)
            except OSError as exc:
                troubles.append(GpustackError(f"cannot be removed: {exc.strerror or exc}", where=path))
        for folder in {self._target.place(path).parent for path in paths}:
            with suppress(FileNotFoundError, NotADirectoryError):
                sync_folder(folder)
        return troubles

    def _put_back(self, path: str) -> None:
        entry, place = self._known[path], self._target.place(path)
        names = [self._target.place(one) for one in self._names_of(entry) if one != path]
        try:
            self._store.put_back(place, entry, names)
        except AttributesError as error:
            if LABEL not in error.names or not self._target.is_live or not is_enforced():
                raise
            # A file of settings with a wrong label may lock everybody out: better the policy's own than none.
            done = LocalRunner().run(("restorecon", "-F", "--", str(place)), timeout=60.0)
            error.hint = f"`restorecon -F {place}`: " + (done.error or done.err.strip() or f"it ended with {done.code}")
            raise

    def _names_of(self, entry: Entry) -> list[str]:
        """The known places that were names of the file of this entry."""
        if entry.links < 2:
            return []
        return [one for one, other in self._known.items() if (other.disk, other.inode) == (entry.disk, entry.inode)]

    def forget(self, step: str) -> None:
        """The step has been taken back: its places belong to nobody again."""
        self._disown(step)


@cache
def _parents(path: str) -> tuple[str, ...]:
    """The folders above a path, the nearest first."""
    return tuple(map(str, PurePosixPath(path).parents))
