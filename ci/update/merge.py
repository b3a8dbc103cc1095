"""Rows of sources against the facts: what is new, what waits for a person, and what stops the source.

A machine adds rows and never alters what a person wrote. A sum that changes, a row that vanishes or a date that goes
back stops the source whole. A release of which only one source knows, or that nobody has read, is added as ``seen``.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from gpustack.model.facts import SEEN
from update.availability import Cell, widened
from update.file_sums import quoted
from update.guards import columns, lookup, vanished, whole
from update.record import Found, Given, Proof, Row
from update.tables import Facts, key_of
from update.witnesses import Witnesses, known_releases, release_of

SUMS = ("sha256", "md5", "size", "url", "file", "commit")
"""Columns that identify a file or a commit: they never change."""

GROWING = {"gpu-lists": ("open", "own", "last")}
"""Columns of lists, and of their newest release, to which a machine may add."""


_CONFIRM = {
    "driver_releases": "only lists that are not the vendor's name it",
    "installers": "only other packagers name it",
    "instances": "a person decides which machine types count",
    "manifest_sums": "only other packagers name it",
    "pins": "only other packagers name it",
    "scoop": "only other packagers name it",
    "tensorrt_manifests": "only other packagers name it",
    "tensorrt_wheels": "the index has no libraries for it",
}
"""Sources that confirm rows and add none, and why."""


_JUDGED = {
    "boards": "a person judges devices",
    "gpu_code": "a person decides which releases count",
    "builds": "a person decides which builds count",
    "package_suffixes": "a person decides which builds count",
    "images": "a person decides which pairs count",
    "packages": "a person decides for which CUDA a package is taken",
    "pairings": "a person decides which pairs count",
}
"""Tables whose rows a source confirms and never adds, and why."""


class Waiting(NamedTuple):
    """A cell, or with no column a row, that a person decides."""

    found: Found
    column: str
    old: str
    new: str
    why: str


class Diff(NamedTuple):
    """What one source would change. ``stops`` says why nothing of it may be applied."""

    added: tuple[Found, ...] = ()
    grown: tuple[Found, ...] = ()
    same: int = 0
    waiting: tuple[Waiting, ...] = ()
    stops: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[Found, ...]:
        """The rows to write; none if the source is stopped."""
        return () if self.stops else (*self.added, *self.grown)


def merge(source: str, given: Given, facts: Facts, witnesses: Witnesses, declined: Container[str] = ()) -> Diff:
    """The difference between what a source gives and the facts; ``declined`` are places that a person left out."""
    merging = _Merging(source, given, facts, witnesses)
    for found in given.rows:
        if place(found, facts) not in declined:
            merging.take(found)
    confirmed = [one.differs for one in quoted(given.sums, facts)]
    stops = (*merging.stops, *filter(None, confirmed), *vanished(given, facts))
    same = merging.same + confirmed.count("")
    return Diff(tuple(merging.added), tuple(whole(facts, merging.grown)), same, tuple(merging.waiting), stops)


def place(found: Found, facts: Facts) -> str:
    """A row by its file, table and key."""
    key = key_of(found.row, facts.key(found.subject, found.table))
    return f"{found.subject}.{found.table} {' '.join(filter(None, key))}"


class _Merging:
    """One merge under way: where each row belongs."""

    def __init__(self, source: str, given: Given, facts: Facts, witnesses: Witnesses) -> None:
        self._source, self._facts, self._witnesses = source, facts, witnesses
        self.added: list[Found] = []
        self.grown: list[Found] = []
        self.waiting: list[Waiting] = []
        self.stops: list[str] = []
        self.same = 0
        self._taken: dict[str, Row] = {}
        branches = {(row["list"], row["branch"]) for row in facts.rows("gpu-lists", "branches")}
        rows = [found.row for found in given.rows if found.subject == "gpu-lists" and found.table == "branches"]
        self._newest = {row["last"] for row in rows if (row["list"], row["branch"]) in branches}
        self._unproven = {(proof.subject, proof.version): why for proof in given.proofs if (why := self._judge(proof))}

    def _judge(self, proof: Proof) -> str:
        """Why a list of files is not used yet, "" if its sum is known; a sum that changed stops the source."""
        rows = {row["version"]: row.get("sha256", "") for row in self._facts.rows(*proof.table)}
        known = rows.get(proof.release, "")
        if known and known != proof.sha256:
            self.stops.append(f"{proof.subject} {proof.release}: the list has the sum {proof.sha256}, it had {known}")
        return "" if known else f"the facts have no sum of its list, which has {proof.sha256}"

    def take(self, found: Found) -> None:
        """Put a row where it belongs."""
        if found.table == "availability":
            wider = widened(found, self._facts)
            if isinstance(wider, Cell):
                self.waiting.append(Waiting(found, "versions", *wider))
            elif wider is not None:
                self.grown.append(wider)
            return
        where = place(found, self._facts)
        if self._taken.setdefault(where, found.row) != found.row:
            self.stops.append(f"{where}: two rows with one key")
        old = lookup(self._facts, found)
        if old is None:
            self._take_new(found)
            return
        changed = [name for name in columns(found, old) if found.row[name] != old.get(name)]
        self.same += not changed
        for name in changed:
            self._take_cell(found, old, name)

    def _take_new(self, found: Found) -> None:
        why = self._unproven.get((found.subject, found.row.get("version", "")), "")
        fate = self._fate(found, why)
        if isinstance(fate, Waiting):
            self.waiting.append(fate)
        elif fate is not None:
            self.added.append(fate)

    def _fate(self, found: Found, why: str) -> Found | Waiting | None:
        """A new row: added, added as seen, or for a person; None if no answer would read it."""
        why = why or _CONFIRM.get(self._source, "") or _JUDGED.get(found.table, "") or _strange(found, self._facts)
        if why:
            return _to_decide(found, why)
        if _is_idle(found, self._facts):
            return None
        if found.table == "releases":
            return _new_release(found, self._facts)
        if found.subject in {"gpu-lists", "cuda-image-tags"} and (why := self._lonely(found)):
            return _to_decide(found, why)
        if found.table == "vgpu_guests":
            return _to_decide(found, "only a bulletin names it")
        if found.subject == "wheels" and found.row["component"] == "cudnn" and "requires" not in found.row:
            return _to_decide(found, "what the wheel requires was not read inside it")
        about = release_of(found)
        if found.subject == "security" and found.table == "fixed":
            about = (found.row["component"], found.row["fixed"])
        if about is not None and not self._witnesses.confirm(*about, self._source):
            return _to_decide(found, f"only {self._source} knows {' '.join(about)}")
        return found

    def _take_cell(self, found: Found, old: Row, name: str) -> None:
        was, now = old.get(name, ""), found.row[name]
        where = f"{place(found, self._facts)}: {name} {was or 'none'} becomes {now}"
        if name in SUMS and was:
            self.stops.append(f"{where}: a sum never changes")
        elif name in GROWING.get(found.subject, ()) and _has_grown(was, now) and not self._lonely(found, was, now):
            self.grown.append(found)
        elif name == "date" and was and str(now) < str(was):
            self.stops.append(f"{where}: the date goes back")
        else:
            why = "it differs from the facts" if name in old else "the facts have none"
            self.waiting.append(Waiting(found, name, str(was), str(now), why))

    def _lonely(self, found: Found, was: object = (), now: object = None) -> str:
        """Why one list alone says it: the newest of a branch that is known already, or one copy of the documents."""
        if found.subject == "cuda-image-tags":
            return "only one copy of the documents lists it" if len(found.row["src"]) < 2 else ""
        cells = now if isinstance(now, list) else [cell for name in ("open", "own") for cell in found.row.get(name, ())]
        fresh = set(cells) - set(was if isinstance(was, (list, tuple)) else ())
        return "only the newest list of its branch has it" if fresh & self._newest else ""


def _to_decide(found: Found, why: str) -> Waiting:
    cells = ", ".join(f"{name} {value}" for name, value in found.row.items() if name != "src")
    return Waiting(found, "", "", cells, why)


def _has_grown(was: object, now: object) -> bool:
    if isinstance(was, list) and isinstance(now, list):
        return set(was) <= set(now)
    return isinstance(was, str) and isinstance(now, str) and _numbers(now) >= _numbers(was)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(".") if part.isdigit()]


def _new_release(found: Found, facts: Facts) -> Found | Waiting:
    """A release that appeared after the newest of its line, by number or by day, is seen; others somebody left out."""
    numbers = _numbers(found.row["version"])
    known = sorted(_numbers(release) for release in known_releases(facts, found.subject))
    lines = ([one for one in known if one[:length] == numbers[:length]] for length in range(len(numbers) - 1, -1, -1))
    newest = next((line[-1] for line in lines if line), [])
    days = [
        row.get("date", "")
        for row in facts.rows(found.subject, "releases")
        if _numbers(row["version"])[0] == numbers[0]
    ]
    if numbers < newest and found.row.get("date", "") <= max(days, default=""):
        return _to_decide(found, "older than the newest known one, and not in the facts")
    return Found(found.subject, found.table, {**found.row, "status": SEEN})


def _strange(found: Found, facts: Facts) -> str:
    """Why a device of a list waits: the facts do not know it."""
    is_known = found.table not in {"products", "devices"} or _products(found, facts)
    return "" if is_known else "a device that the facts do not know"


def _is_idle(found: Found, facts: Facts) -> bool:
    """Whether no answer would read a row: a system without a row of its own, a device that no open module supports."""
    if found.table != "devices" or "open" in found.row:
        return found.table == "ends"
    products = _products(found, facts)
    return bool(products) and all(row.get("open_module") == "impossible" for row in products)


def _products(found: Found, facts: Facts) -> list[Row]:
    return [row for row in facts.filled("gpus", "products") if row["device"] == found.row["device"]]
