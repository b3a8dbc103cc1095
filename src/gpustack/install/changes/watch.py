"""Which places of the tree a run changed, and their former state; the history holds what is known about them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import PurePosixPath

from msgspec.structs import replace

from gpustack.errors import GpustackError
from gpustack.install.changes.attributes import LABEL, is_enforced
from gpustack.install.changes.backups import AttributesError, Backups
from gpustack.install.changes.brought import listing, prune, strangers, write
from gpustack.install.changes.look import content_of, differences, is_as, look, with_sum
from gpustack.install.changes.names import safe
from gpustack.install.changes.scan import Scan
from gpustack.install.journal.file import sync_folder
from gpustack.install.journal.history import ABSENT, History
from gpustack.install.journal.records import Entry
from gpustack.install.root import InstallRoot
from gpustack.install.run.touched_paths import NAMED_IN, is_watched_alone
from gpustack.system.run import LocalRunner

SHARED = (
    *("/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow", "/etc/subuid", "/etc/subgid"),
    *("/var/lib/apt/extended_states", "/var/lib/dpkg/alternatives/", "/var/lib/dpkg/diversions"),
    *("/var/lib/dpkg/statoverride", "/var/lib/alternatives/"),
)
"""Lists that many programs share, each with its own lines; and their copies, which begin with these names."""

_ALTERNATIVES = "/etc/alternatives/"


class Watch:
    """``before`` is called ahead of a step, ``after`` behind it; ``restore`` reverts what a step changed.

    A place belongs to the step that changed it first; its state before that step is what is restored. All knowledge
    about places is in the history: nothing is known that is not in the journal.
    """

    def __init__(self, target: InstallRoot, store: Backups, history: History) -> None:
        self._target = target
        self._store = store
        self._history = history
        self._brought: set[str] = set()
        self._seen: dict[str, dict[str, Entry]] = {}
        self._base: dict[str, Entry] | None = None
        self._look = Scan()
        self._named: set[str] | None = None
        self._read: dict[str, tuple[Entry, frozenset[str]]] = {}

    def before(self, roots: tuple[str, ...]) -> dict[str, Entry]:
        """The state of these places if still unknown, with contents kept. To be journaled before any change."""
        # Nothing ran since the last look, and its results are known or owned: no need to look twice.
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
        # If others changed something since the last look, restore its present state.
        found.update((path, Entry()) for path in self._gone(found, unseen))
        found |= named
        owner = self._history.owner
        return self._keep(
            {path: entry for path, entry in found.items() if path not in owner and not self._is_known(path, entry)}
        )

    def _is_known(self, path: str, entry: Entry) -> bool:
        known = self._history.base.get(path)
        if known is None:
            return False
        return _is_untouched(known, entry) or is_as(known, self._target.place(path), entry)

    def after(self, roots: tuple[str, ...]) -> dict[str, Entry]:
        """What differs now from the known state. To be journaled behind the step."""
        changed: dict[str, Entry] = {}
        for folder in self._absent_above(roots):
            entry = look(self._target.place(folder))
            if entry.kind:
                changed[folder] = entry
        self._brought = set(changed)
        looks = {root: self._scan(root) for root in roots}
        names = self._names(looks) | (self._single(roots) if self._named is None else self._named)
        named = self._look_at(names)
        found = {path: entry for one in (*looks.values(), named) for path, entry in one.items()}
        for path in sorted(self._find_moved(found, roots)):
            entry = found.get(path, Entry())
            known, base = self._history.known(path), self._history.base.get(path)
            if _is_untouched(known, entry):
                continue
            if path in names and base is None and not entry.link.startswith(_ALTERNATIVES):
                # Named only since the step: its former state is unknown.
                continue
            place = self._target.place(path)
            if not is_as(known, place, entry) and not self._is_born(path):
                changed[path] = replace(with_sum(str(place), entry), links=1)
                if base is None or not base.kind:
                    self._brought.add(path)
        self._seen, self._base, self._named, self._brought = looks, None, None, set()
        return changed

    def brought(self, roots: tuple[str, ...], changed: dict[str, Entry]) -> dict[str, str]:
        """List the content of folders that the run created and a step may have filled; return the listings' names."""
        base, now = self._history.base, {**self._history.now, **changed}
        made = {*changed, *(path for path in self._history.owner if _overlaps(path, roots))}
        folders = sorted(path for path in made if now[path].kind == "dir" and not base.get(path, ABSENT).kind)
        names = {path: f"brought{self._history.count}-{number}" for number, path in enumerate(folders)}
        for path, name in names.items():
            write(self._store.folder / name, listing(self._target.place(path)))
        return names

    def _strangers(self) -> dict[str, Entry]:
        """What others put into folders of the run, and these folders, which stay because of it."""
        found: dict[str, Entry] = {}
        for folder, name in self._history.brought.items():
            place = self._target.place(folder)
            if folder in self._history.owner and look(place).kind == "dir":
                theirs = strangers(place, self._store.folder / name)
                paths = [folder, *(f"{folder}/{one}" for one in theirs)] if theirs else []
                found |= {path: look(self._target.place(path)) for path in paths}
        return found

    def since(self, roots: tuple[str, ...]) -> dict[str, Entry]:
        """What others changed since the run's last change, with contents kept. To be journaled."""
        found = self._all(roots)
        self._seen, self._base, self._named = {}, None, None
        history = self._history
        return self._keep(
            {
                path: entry
                for path, entry in found.items()
                if not self._is(history.known(path), path, entry)
                # What is as it was before the run needs no undo.
                and not self._is(history.wanted(path), path, entry)
                and not self._is_born(path)
            }
            | self._strangers()
        )

    def differences(self, roots: tuple[str, ...]) -> dict[str, str]:
        """The places that differ from their state before the run, with their differences.

        The content of a folder that is new or gone is omitted.
        """
        found: dict[str, str] = {}
        whole: set[str] = set()
        for path, entry in sorted(self._all(roots).items()):
            base = self._history.base.get(path, ABSENT)
            if self._is(base, path, entry) or _is_noise(path):
                continue
            if not (base.kind and entry.kind):
                whole.add(path)
            if path.rpartition("/")[0] not in whole:
                found[path] = ", ".join(differences(base, entry, is_moved=True)) or "content"
        return found

    def _all(self, roots: tuple[str, ...]) -> dict[str, Entry]:
        """Everything that is below the roots or named by what is, now or formerly."""
        looks = {root: self._scan(root) for root in roots}
        named = self._look_at(self._names(looks) | self._single(roots))
        found = {path: entry for one in (*looks.values(), named) for path, entry in one.items()}
        return found | dict.fromkeys(self._gone(found, roots), Entry())

    def _is(self, was: Entry, path: str, now: Entry) -> bool:
        return _is_untouched(was, now) or is_as(was, self._target.place(path), now, is_moved=True)

    def _keep(self, places: dict[str, Entry]) -> dict[str, Entry]:
        counted = self._counted(places)
        at = self._target.places(counted)
        return self._store.keep({path: (at[path], entry) for path, entry in counted.items()})

    def _counted(self, fresh: dict[str, Entry]) -> dict[str, Entry]:
        """The entries, with link counts limited to the watched names of a file: names elsewhere may change."""
        if not any(entry.disk for entry in fresh.values()):
            return fresh
        names = Counter((one.disk, one.inode) for one in {**self._history.base, **fresh}.values() if one.disk)
        return {
            path: replace(one, links=names[one.disk, one.inode]) if one.disk else one for path, one in fresh.items()
        }

    def _gone(self, found: dict[str, Entry], roots: tuple[str, ...]) -> list[str]:
        """What is known to be below the roots, but no longer exists."""
        return [path for path in self._below(roots) if path not in found and self._history.known(path).kind]

    def _find_moved(self, found: dict[str, Entry], roots: tuple[str, ...]) -> set[str]:
        """The paths that may differ from the known state: those whose entries are not the same objects as before."""
        base = self._base
        if base is None:
            return {*found, *self._below(roots)}
        gone = {path for path in base.keys() - found.keys() if base[path].kind}
        return gone | {path for path, entry in found.items() if base.get(path) is not entry}

    def _absent_above(self, roots: tuple[str, ...]) -> list[str]:
        """The missing folders above the roots that nothing has created yet."""
        above = {one for root in roots for one in _parents(root)}
        owner, base = self._history.owner, self._history.base
        return sorted(path for path in above if path not in owner and path in base and not base[path].kind)

    def _below(self, roots: tuple[str, ...]) -> list[str]:
        heads = tuple(f"{root}/" for root in roots)
        return [path for path in self._history.now if path in roots or path.startswith(heads)]

    def _single(self, roots: tuple[str, ...]) -> set[str]:
        """The known places outside of known folders: those named before a crash are among them."""
        heads = tuple(f"{root}/" for root in roots)
        return {
            path
            for path in self._history.now
            if path.rpartition("/")[0] not in self._history.now and path not in roots and not path.startswith(heads)
        }

    def _scan(self, root: str) -> dict[str, Entry]:
        place = self._target.place(root)
        if not os.path.lexists(place):
            return {self._topmost_absent(root): Entry()}
        if self._is_born(root):
            return {}
        # The content of a folder that the run created disappears with it.
        return (
            {root: self._look.alone(root, place)} if self._is_new(root) else self._look.below(root, place, self._is_new)
        )

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
        """The state of these places alone, not of their content."""
        return {path: self._look.alone(path, self._target.place(path)) for path in names if not self._is_born(path)}

    def _topmost_absent(self, path: str) -> str:
        """The highest missing folder on the way to ``path``, which is missing itself."""
        missing = path
        for parent in _parents(path):
            if os.path.lexists(self._target.place(parent)):
                break
            missing = parent
        return missing

    def _is_born(self, path: str) -> bool:
        """Whether the path is in a folder that this run created: it disappears with that folder."""
        end = path.rfind("/") if self._history.owner or self._brought else 0
        while end > 0:
            if self._is_new(path[:end]):
                return True
            end = path.rfind("/", 0, end)
        return False

    def _is_new(self, path: str) -> bool:
        history = self._history
        return path in self._brought or (path in history.owner and not history.base.get(path, ABSENT).kind)

    def left_by(self, step: str) -> dict[str, Entry]:
        """The places that a step changed first, as the run left them."""
        return {path: self._history.now[path] for path in self._history.owned_by(step)}

    def is_as_left(self, path: str) -> bool:
        """Whether a file that the run changed is as the run left it, by size, time and inode."""
        last = self._history.now.get(path) if path in self._history.owner else None
        place = self._target.place(path)
        return last is not None and last.kind == "file" and is_as(last, place, look(place))

    def restore(self, step: str, changed: Iterable[str] = ()) -> list[GpustackError]:
        """Restore everything that the step changed first, and what its undo ``changed``; return what failed.

        What others changed since the run is left, or restored if the undo changed it.
        """
        self._seen, self._base = {}, None
        history = self._history
        own = {path for path in changed if history.owner.get(path, step) == step}
        paths = sorted(own.union(history.owned_by(step)))
        absent = [path for path in paths if not history.wanted(path).kind]
        order = [*reversed(absent), *(path for path in paths if history.wanted(path).kind)]
        troubles = [error for path in order if (error := self._put_back(path))]
        for folder in {self._target.place(path).parent for path in paths}:
            with suppress(FileNotFoundError, NotADirectoryError):
                sync_folder(folder)
        return troubles

    def former_text(self, path: str) -> str:
        """The content of a file before the run if somebody changed it since, so that it stays; "" otherwise."""
        base = self._history.base.get(path, ABSENT)
        if path not in self._history.found or base.kind != "file":
            return ""
        with self._store.content(base, self._target.place(path)) as content:
            return content.read().decode("utf-8", "replace")

    def restore_found(self, changed: Iterable[str]) -> None:
        """Restore what others changed since the run, and an undo ``changed``; a later attempt reports it."""
        for path in changed:
            if path in self._history.found:
                self._put_back(path)

    def _put_back(self, path: str) -> GpustackError | None:
        """Restore a place to its former state, or somebody's later one; return why that failed, None if it did not."""
        wanted, place = self._history.wanted(path), self._target.place(path)
        there = look(place)
        if wanted.kind == there.kind == "dir" and path in self._history.brought:
            head = f"{path}/"
            prune(place, {one.removeprefix(head) for one in self._history.found if one.startswith(head)})
        # Package scripts change these line by line: lines that others added since are still in them.
        is_shared = path in self._history.found and path.startswith(SHARED) and there.kind == "file"
        if is_shared or self._is(wanted, path, there):
            return None
        names = [self._target.place(one) for one in self._names_of(wanted) if one != path]
        try:
            self._store.put_back(place, wanted, names)
        except AttributesError as error:
            if LABEL in error.names and self._target.is_live and is_enforced():
                # A configuration file with a wrong label may lock everybody out: better the policy's default than none.
                done = LocalRunner().run(("restorecon", "-F", "--", str(place)), timeout=60.0)
                why = done.error or done.err.strip() or f"it ended with {done.code}"
                error.hint = f"`restorecon -F {place}`: {why}"
            return error
        except GpustackError as error:
            return error
        except OSError as exc:
            return GpustackError(f"cannot be removed: {exc.strerror or exc}", code="backup-failed", where=path)
        return None

    def _names_of(self, entry: Entry) -> list[str]:
        """The known places that were names of the file of this entry."""
        if entry.links < 2:
            return []
        known = self._history.base.items()
        return [one for one, other in known if (other.disk, other.inode) == (entry.disk, entry.inode)]


def _overlaps(path: str, roots: tuple[str, ...]) -> bool:
    """Whether a path is in one of the roots, or one of them in it."""
    return any(path == root or path.startswith(f"{root}/") or root.startswith(f"{path}/") for root in roots)


def _is_untouched(was: Entry, now: Entry) -> bool:
    """Whether it is the same file and unchanged since: if so, its place need not be found."""
    return bool(was.ctime) and was.ctime == now.ctime and was.inode == now.inode


def _is_noise(path: str) -> bool:
    """Whether systemd writes it by itself while the machine runs."""
    return path.startswith("/var/lib/systemd/") and not path.startswith("/var/lib/systemd/deb-")


@cache
def _parents(path: str) -> tuple[str, ...]:
    """The folders above a path, nearest first."""
    return tuple(map(str, PurePosixPath(path).parents))
