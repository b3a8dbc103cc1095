"""Queries of the facts. Decodes only the requested tables and never imports yaml."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gpustack.digests import sha256_hex
from gpustack.errors import MatrixError
from gpustack.matrix.layout import BINDING
from gpustack.matrix.store import Store
from gpustack.matrix.updates import newest_store, site_overlays
from gpustack.model.facts import MIRRORED, Archive, Availability, PackageSet, Release, Rule, Source, subject_of
from gpustack.model.frameworks import Build, WheelFile
from gpustack.model.host import Host
from gpustack.model.places import ConflictRow, GpuProduct, JetPack, Repository, SigningKey, System, find_system
from gpustack.versions import version

T = TypeVar("T")


class _Searched:
    """The encoded rows of a table that is searched for words, again and again: in one text of all rows."""

    def __init__(self, raw: bytes) -> None:
        self._rows = msgspec.msgpack.decode(raw, type=list[msgspec.Raw])
        self._text = bytes(raw).lower()
        sizes = [memoryview(row).nbytes for row in self._rows]
        self._starts = list(accumulate(sizes, initial=len(raw) - sum(sizes)))

    def holding(self, words: list[bytes]) -> list[msgspec.Raw]:
        """The rows that hold all words."""
        first, *others = sorted(words, key=len, reverse=True)
        found, at = [], self._text.find(first, self._starts[0])
        while 0 <= at < self._starts[-1]:
            row = bisect_right(self._starts, at) - 1
            start, end = self._starts[row], self._starts[row + 1]
            if at + len(first) <= end and all(self._text.find(word, start, end) >= 0 for word in others):
                found.append(self._rows[row])
                at = end
            at = self._text.find(first, at if at == end else at + 1)
        return found


class Matrix:
    """All facts of one run. Queries are cached; the object never changes."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._rows: dict[tuple[str, str, object], tuple[Any, ...]] = {}
        self._sources: dict[str, dict[str, Source]] = {}
        self._releases: dict[str, tuple[Release, ...]] = {}
        self._binding: dict[str, dict[str, list[int]]] = {}
        self._searched: dict[tuple[str, str], _Searched] = {}

    @property
    def subjects(self) -> tuple[str, ...]:
        return tuple(sorted(self.store.index.subjects))

    def about(self, subject: str) -> str:
        return self.store.index.subjects[subject].about

    def tables(self, subject: str) -> dict[str, int]:
        """The tables of a subject and the number of their rows."""
        return self.store.index.subjects[subject].tables

    @property
    def date(self) -> str:
        """When the facts were true: a day, or the time of publication in UTC."""
        return self.store.index.date

    @cached_property
    def digest(self) -> str:
        """The sha256 over the digests of all matrix files in use; documents record it."""
        lines = [f"{name} {entry.digest}\n" for name, entry in sorted(self.store.index.subjects.items())]
        return sha256_hex("".join(lines).encode())

    def table_head(self, subject: str, table: str) -> tuple[str, tuple[str, ...], dict[str, str]]:
        """What a table is about, its key columns and its declared columns. Raises KeyError for an unknown table."""
        compiled = self.store.head(subject)
        if compiled is None:
            raise KeyError(subject)
        head = compiled.tables[table]
        return head.about, head.key, head.fields

    def rows(self, subject: str, table: str, kind: type[T]) -> tuple[T, ...]:
        """The rows of a table as ``kind`` (a Struct, or dict), in the file's order; () where there is no such table."""
        place = (subject, table, kind)
        if place not in self._rows:
            raw = self.store.rows(subject, table)
            try:
                rows = msgspec.msgpack.decode(raw, type=list[kind], strict=False) if raw else []  # type: ignore[valid-type]
            except msgspec.ValidationError as exc:
                # Only an overlay can get here: a test decodes the built-in rows.
                raise MatrixError(str(exc), where=f"{subject}.yaml: {table}", hint="correct the overlay") from exc
            self._rows[place] = tuple(rows)
        return self._rows[place]

    def rows_with(self, subject: str, table: str, kind: type[T], words: tuple[str, ...]) -> tuple[T, ...]:
        """The rows of a table that hold all ``words`` (ASCII, in lower case), in any case; maybe others as well.

        The rest of a large table is not decoded, which costs more than the search.
        """
        if (subject, table, kind) in self._rows or not words:
            return self.rows(subject, table, kind)
        if (subject, table) not in self._searched:
            self._searched[subject, table] = _Searched(self.store.rows(subject, table) or b"\x90")
        found = self._searched[subject, table].holding([word.encode() for word in words])
        return tuple(msgspec.msgpack.decode(row, type=kind, strict=False) for row in found)

    def everywhere(self, table: str, kind: type[T]) -> tuple[T, ...]:
        """The rows of the tables of that name in every subject."""
        return tuple(
            row
            for subject in self.subjects
            if table in self.store.index.subjects[subject].tables
            for row in self.rows(subject, table, kind)
        )

    def sources(self, subject: str) -> dict[str, Source]:
        """The sources of a subject by their short keys."""
        if subject not in self._sources:
            compiled = self.store.head(subject)
            raw = msgspec.msgpack.decode(compiled.sources, type=dict[str, Source]) if compiled else {}
            self._sources[subject] = raw
        return self._sources[subject]

    def addresses(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """The addresses of sources given by global key ("cuda/guide_13_4"), each once, pages first."""
        found: dict[str, None] = {}
        for key in keys:
            subject, _, short = key.partition("/")
            source = self.sources(subject).get(short)
            if source is not None:
                found[source.address] = None
        return tuple(sorted(found, key=lambda address: not address.startswith("https://")))

    def read_on(self, keys: tuple[str, ...]) -> str:
        """The last day on which any of these sources (global keys) was read; "" if unknown."""
        found = [(key.partition("/")[2], self.sources(key.partition("/")[0])) for key in keys]
        return max((sources[short].read for short, sources in found if short in sources), default="")

    def releases(self, component: str) -> tuple[Release, ...]:
        """The known releases of a component, newest first."""
        name = MIRRORED.get(component, component)
        if name not in self._releases:
            if self.store.has_parts:
                self._releases[name] = self._part("releases", name, Release)
            else:
                rows = self.rows(name, "releases", Release)
                self._releases[name] = tuple(sorted(rows, key=lambda row: version(row.version).key, reverse=True))
        return self._releases[name]

    def rules(self, component: str) -> tuple[Rule, ...]:
        """The rules that bind a component."""
        if self.store.has_parts:
            return self._part("rules", component, Rule)
        return tuple(row for row in self.everywhere("rules", Rule) if subject_of(row.of) == component)

    def binding(self, component: str) -> dict[str, list[int]]:
        """For each release, the places in ``rules(component)`` of the rules that bind it; {} if not precomputed."""
        if component not in self._binding:
            raw = self.store.part(BINDING, component) if self.store.has_parts else None
            self._binding[component] = msgspec.msgpack.decode(raw, type=dict[str, list[int]]) if raw else {}
        return self._binding[component]

    def availability(self, component: str) -> tuple[Availability, ...]:
        """Which repository folders carry which versions of a component."""
        if self.store.has_parts:
            return self._part("availability", component, Availability)
        return tuple(row for row in self.everywhere("availability", Availability) if row.component == component)

    def packages(self, component: str) -> tuple[PackageSet, ...]:
        """The package sets of a component."""
        if self.store.has_parts:
            return self._part("packages", component, PackageSet)
        return tuple(row for row in self.everywhere("packages", PackageSet) if row.component == component)

    def builds(self, framework: str) -> tuple[Build, ...]:
        """The builds of a framework, of its own indexes too."""
        if self.store.has_parts:
            return self._part("framework_builds", framework, Build)
        return tuple(row for row in self.everywhere("framework_builds", Build) if row.component == framework)

    def wheel_files(self, framework: str) -> tuple[WheelFile, ...]:
        """The files of a framework's builds in the default index."""
        if self.store.has_parts:
            return self._part("framework_files", framework, WheelFile)
        return tuple(row for row in self.everywhere("framework_files", WheelFile) if row.component == framework)

    def _part(self, table: str, component: str, kind: type[T]) -> tuple[T, ...]:
        place = (f"@{table}", component, kind)
        if place not in self._rows:
            raw = self.store.part(table, component)
            self._rows[place] = tuple(msgspec.msgpack.decode(raw, type=list[kind], strict=False)) if raw else ()  # type: ignore[valid-type]
        return self._rows[place]

    @cached_property
    def systems(self) -> tuple[System, ...]:
        return self.rows("systems", "systems", System)

    @cached_property
    def _systems_by_key(self) -> dict[str, System]:
        return {row.key: row for row in reversed(self.systems)}

    def system(self, key: str | None) -> System | None:
        """The row of a system by its key ("ubuntu24.04"), or None."""
        return self._systems_by_key.get(key or "")

    def system_of(self, host: Host) -> System | None:
        """The row of a host's system: the one that the host names, else the most specific one of its package family."""
        if host.os.system:
            return self.system(host.os.system)
        name = host.os.id or ""
        if host.environment == "wsl" and not name.startswith("wsl-"):
            name = f"wsl-{name}"
        row = find_system(self.systems, name, host.os.version_id)
        return row if row is not None and host.os.family in {None, "", row.family} else None

    @cached_property
    def jetpacks(self) -> tuple[JetPack, ...]:
        return self.rows("jetpack", "jetpacks", JetPack)

    @cached_property
    def repositories(self) -> tuple[Repository, ...]:
        return self.everywhere("repositories", Repository)

    @cached_property
    def keys(self) -> dict[str, SigningKey]:
        return {row.id: row for row in self.everywhere("keys", SigningKey)}

    @cached_property
    def products(self) -> tuple[GpuProduct, ...]:
        return self.rows("gpus", "products", GpuProduct)

    @cached_property
    def conflicts(self) -> dict[str, ConflictRow]:
        return {row.id: row for row in self.rows("conflicts", "conflicts", ConflictRow)}

    def archives(self, subject: str) -> tuple[Archive, ...]:
        return self.rows(subject, "archives", Archive)


def load_matrix(*overlays: Path | None, has_site: bool = True) -> Matrix:
    """The facts in use, with what this host's repositories offer and the files of the folders ``overlays`` applied.

    Without ``has_site`` what the repositories offer is omitted. Raises MatrixError (exit 2) naming file, row and field
    if an overlay is invalid.
    """
    facts = _latest()
    for folder in (*(site_overlays() if has_site else ()), *overlays):
        if folder is not None:
            facts = with_overlay(facts, folder)
    return facts


_KEPT: list[Matrix] = []
"""The facts of the last run in this process: a further run does not decode them again."""


def _latest() -> Matrix:
    store = newest_store()[0]
    if not _KEPT or not _KEPT[0].store.is_same(store):
        _KEPT[:] = [Matrix(store)]
    return _KEPT[0]


def with_overlay(facts: Matrix, folder: Path) -> Matrix:
    """The facts with the files of a folder applied. Raises MatrixError."""
    from gpustack.matrix.overlay_cache import laid_over  # noqa: PLC0415 (few have one)

    return Matrix(laid_over(facts.store, folder))
