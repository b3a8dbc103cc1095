"""Rows of a source next to the rows of the facts: which one is the same, which vanished, which is new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpustack.model.facts import SEEN
from update.record import Found, Given, Row
from update.tables import Facts, key_of

_APART = frozenset({"src", "note", "known"})
_STEADY = ("commit",)
_DATED = {"driver": ("date",)}
"""Components whose list of releases states their days; an upload is not the day of the release."""


def lookup(facts: Facts, found: Found) -> Row | None:
    """The row of the facts; a release is looked up by version and system, whatever else its key has."""
    if found.table != "releases":
        return facts.by_key(found.subject, found.table).get(key_of(found.row, facts.key(found.subject, found.table)))
    systems = set(found.row.get("os", ()))
    for row in facts.rows(found.subject, found.table):
        if row["version"] == found.row["version"] and (not systems or systems & set(row.get("os", systems))):
            return row
    return None


def columns(found: Found, old: Row) -> tuple[str, ...]:
    """The columns that are compared. What is read of a judged release comes from several pages, its commit from one;
    a day is compared with one of the same kind.
    """
    if found.table == "releases" and old.get("status") != SEEN:
        kind = old.get("date_kind")
        dated = _DATED.get(found.subject, ()) if found.row.get("date_kind", kind) == kind else ()
        return tuple(name for name in (*_STEADY, *dated) if name in found.row and name in old)
    return tuple(name for name in found.row if name not in _APART)


def vanished(given: Given, facts: Facts) -> Iterator[str]:
    """Rows of the facts that the source covers, that come from it alone, and that it does not give any more."""
    have: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for found in given.rows:
        key = key_of(found.row, facts.key(found.subject, found.table))
        have.setdefault((found.subject, found.table), set()).add(key)
    for subject, table, values in given.covers:
        for key, row in facts.by_key(subject, table).items():
            is_covered = all(row.get(name) == value for name, value in values.items())
            if is_covered and key not in have.get((subject, table), set()):
                yield f"{subject}.{table} {' '.join(key)}: the row vanishes"


def whole(facts: Facts, grown: Iterable[Found]) -> Iterator[Found]:
    """The rows of the facts with the cells that have grown."""
    for found in dict.fromkeys(map(_hashable, grown)):
        subject, table, row = found[0], found[1], dict(found[2])
        old = facts.by_key(subject, table).get(key_of(_listed(row), facts.key(subject, table)), {})
        yield Found(subject, table, {**old, **_listed(row)})


def _hashable(found: Found) -> tuple[str, str, tuple[tuple[str, object], ...]]:
    cells = ((name, tuple(value) if isinstance(value, list) else value) for name, value in found.row.items())
    return found.subject, found.table, tuple(cells)


def _listed(row: Row) -> Row:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in row.items()}
