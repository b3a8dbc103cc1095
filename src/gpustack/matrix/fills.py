"""``filled``: the columns that a row takes from a row of another table of its file, where a person wrote them once.

``filled: {boards: [device, subsystem, src], chips: [chip, src]}`` in a table: a row takes each column that it lacks
from the row of ``boards`` with the same device and subsystem, then from the row of ``chips`` with the same chip.
``src``: the sources of that row are added to its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

_ASIDE = frozenset({"src", "known", "note"})


class Fill(NamedTuple):
    """A table from which rows are filled: by which columns, its rows by these, and whether its sources are added."""

    by: tuple[str, ...]
    rows: Mapping[tuple[str, ...], Mapping[str, Any]]
    is_cited: bool


def fills(raw: Mapping[str, Any], tables: Mapping[str, Any]) -> list[Fill]:
    """What a table of a file is filled from. Raises ValueError where a table or a column is not there."""
    named = raw.get("filled", {})
    if not isinstance(named, dict):
        msg = "filled has to be a mapping of tables to lists of columns"
        raise ValueError(msg)  # noqa: TRY004 (a fault of the file like the others)
    return [_fill(table, by, raw, tables) for table, by in named.items()]


def _fill(table: str, by: object, raw: Mapping[str, Any], tables: Mapping[str, Any]) -> Fill:
    other = tables.get(table)
    if not isinstance(by, list) or not isinstance(other, dict) or not isinstance(other.get("rows"), list):
        msg = f"filled: {table!r} has to be a table of this file, with a list of columns"
        raise ValueError(msg)  # noqa: TRY004 (a fault of the file like the others)
    is_cited, by = "src" in by, [name for name in by if name != "src"]
    for name in by:
        if not all(isinstance(one.get("fields"), dict) and name in one["fields"] for one in (raw, other)):
            msg = f"filled: column {name!r} is not among the fields of both tables"
            raise ValueError(msg)
    rows = [row for row in other["rows"] if isinstance(row, dict)]
    return Fill(tuple(by), {_place(row, by): row for row in rows}, is_cited)


def filled(row: Mapping[str, Any], found: Iterable[Fill], columns: Iterable[str]) -> dict[str, Any]:
    """A row with the columns that it lacks, as far as the tables that fill it have them."""
    full = dict(row)
    for fill in found:
        more = fill.rows.get(_place(row, fill.by), {})
        taken = {name: more[name] for name in columns if name in more and name not in full and name not in _ASIDE}
        full |= taken
        if taken and fill.is_cited and isinstance(full.get("src"), list) and isinstance(more.get("src"), list):
            full["src"] = list(dict.fromkeys([*full["src"], *more["src"]]))
    return full


def _place(row: Mapping[str, Any], by: Iterable[str]) -> tuple[str, ...]:
    return tuple(str(row.get(name, "")) for name in by)
