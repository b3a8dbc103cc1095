"""Which versions a repository folder offers: a machine moves the upper end of a range, and nothing else."""

from __future__ import annotations

import re
from typing import NamedTuple

from update.form import numbers
from update.record import Found, Row
from update.tables import Facts

_END = re.compile(r"(?:<=|==)(\d+(?:\.\d+)*)(?:,!=.*)?$")


class Cell(NamedTuple):
    """What a person has to decide about a range: the old one, the newest version of the folder, and why."""

    old: str
    newest: str
    why: str


def widened(found: Found, facts: Facts) -> Found | Cell | None:
    """The row with the newer versions of the folder, a cell for a person, or None where nothing is new."""
    component, listed = found.row["component"], found.row["listed"]
    rows = [row for row in facts.rows(found.subject, found.table) if _is_place(row, found)]
    if not rows:
        return Cell("", listed[-1], f"the facts have no row for {component} in {found.row['repo']}")
    row = rows[-1]
    end = _END.search(row["versions"])
    if end is None:
        return Cell(row["versions"], listed[-1], "its end is a bound") if _is_beyond(facts, row, listed) else None
    later = [one for one in listed if numbers(one) > numbers(end[1])]
    if not later:
        return None
    if row["arch"] != found.row["arch"]:
        return Cell(row["versions"], listed[-1], "the row is for further architectures")
    released = [one["version"] for one in facts.rows(component, "releases")]
    between = [one for one in released if numbers(end[1]) < numbers(one) <= numbers(listed[-1])]
    if set(between) <= set(later) and row["versions"].startswith(">=") and "|" not in row["versions"]:
        text = row["versions"].replace(f"<={end[1]}", f"<={listed[-1]}")
    else:
        text = " | ".join([row["versions"], *(f"=={one}" for one in later)])
    return Found(found.subject, found.table, {**row, "versions": text})


def _is_place(row: Row, found: Found) -> bool:
    same = all(row[name] == found.row[name] for name in ("component", "method", "repo"))
    return same and found.row["arch"][0] in row["arch"]


def _is_beyond(facts: Facts, row: Row, listed: list[str]) -> bool:
    bounds = {one["name"]: one["version"] for one in facts.rows("bounds", "bounds")}
    named = re.findall(r"<=@([a-z0-9-]+)", row["versions"])
    return bool(named) and numbers(listed[-1]) > max(numbers(bounds[name]) for name in named)
