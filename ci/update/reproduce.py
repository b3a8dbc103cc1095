"""Which rows of the facts come out of recorded bodies alone, and which do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from update.file_sums import quoted
from update.record import Body, Given, Row, Source
from update.tables import Facts, key_of

MESSAGES = frozenset({"driver-errors", "log-lines"})
"""Subjects of what programs print when they fail: nobody publishes lists of it, and it does not age with releases."""

_APART = frozenset({"src", "note", "known"})


class Share(NamedTuple):
    """How much of one table is made by machine: rows that agree whole, rows of which some cells do, and all rows."""

    subject: str
    table: str
    whole: int
    partly: int
    rows: int


def given_by(sources: Iterable[Source], bodies: Mapping[str, tuple[Body, ...]]) -> dict[str, Given]:
    """What each source gives, by its name."""
    return {one.name: one.rows(bodies[one.name]) for one in sources if one.name in bodies}


def shares(given: Iterable[Given], facts: Facts) -> Iterator[Share]:
    """The share of each table for which a source gives rows."""
    made: dict[tuple[str, str], dict[tuple[str, ...], Row]] = {}
    for one in given:
        for found in one.rows:
            if found.table != "availability":
                names = _names(found.table, facts.key(found.subject, found.table))
                rows = made.setdefault((found.subject, found.table), {})
                key = key_of(found.row, names)
                rows[key] = {**found.row, **rows.get(key, {})}  # the first source is the vendor's
    for (subject, table), rows in sorted(made.items()):
        names = _names(table, facts.key(subject, table))
        compared = [(row, rows.get(key_of(row, names))) for row in facts.rows(subject, table)]
        whole = sum(made_row is not None and is_whole(row, made_row) for row, made_row in compared)
        some = sum(made_row is not None for _, made_row in compared)
        yield Share(subject, table, whole, some - whole, len(compared))


def _names(table: str, key: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in key if name in {"version", "os"}) if table == "releases" else key


def is_whole(row: Row, made: Row) -> bool:
    """Whether every cell of a row, other than remarks and sources, comes out of the body."""
    return _cells(row) == _cells(made)


def _cells(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in _APART}


class Sums(NamedTuple):
    """How many checksums the facts have, and each one that no body gives, with its row and the sources that have it.

    ``own`` are of files that were made here, for a measurement: nobody else can have them.
    """

    known: int
    own: tuple[str, ...]
    lacking: tuple[str, ...]


def sums(given: Iterable[Given], facts: Facts) -> Sums:
    """Which checksums come out of bodies."""
    made: set[object] = set()
    for one in given:
        made.update(cell for found in one.rows for cell in found.row.values() if isinstance(cell, str))
        made.update(proof.sha256 for proof in one.proofs)
        made.update(found.sum.digest for found in quoted(one.sums, facts) if not found.differs)
    known = 0
    own, lacking = [], []
    for subject in facts.subjects:
        document = facts.document(subject)
        for table, about in document["tables"].items():
            columns = [name for name, kind in about["fields"].items() if kind in {"sha256", "md5"}]
            cells = [(row, name) for name in columns for row in about["rows"] if name in row]
            known += len(cells)
            for row, name in cells:
                if row[name] not in made:
                    place = " ".join(filter(None, key_of(row, about["key"])))
                    sources = [document["sources"][key] for key in row["src"]]
                    places = own if all(one["known"] == "tested" for one in sources) else lacking
                    addresses = ", ".join(one["address"] for one in sources)
                    places.append(f"{subject}.{table} {place}: {name}: only {addresses}")
    return Sums(known, tuple(own), tuple(lacking))


def total(facts: Facts) -> int:
    """The rows of all tables, as they stand in the files, without messages of programs."""
    counted = [subject for subject in facts.subjects if subject not in MESSAGES]
    return sum(len(table["rows"]) for subject in counted for table in facts.document(subject)["tables"].values())
