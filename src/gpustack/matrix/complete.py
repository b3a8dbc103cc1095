"""What the facts state about the previous release but not about a given one: a checklist for adding a release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpustack.errors import UsageError
from gpustack.matrix.index import Matrix
from gpustack.model.facts import Release
from gpustack.versions import is_within, version

_IDENTITY = {
    "rules": ("needs", "equal", "when", "strength"),
    "availability": ("component", "method", "repo", "arch"),
    "packages": ("component", "method", "family", "role", "arch", "flavour"),
    "archives": ("component", "method", "platform", "distro", "part"),
}
"""The columns that identify a statement across releases; by default the key without the version."""

_TELLS_RELEASES_APART = {"version", "versions", "of", "id", "file", "packages", "manifest"}


def lacking(facts: Matrix, component: str, text: str) -> tuple[Release, list[str]]:
    """The release before ``component`` ``text``, and what the facts state about that one only, one line each.

    A line names file, table and the columns that identify the statement. Raises UsageError if the facts know no such
    release, or none before it.
    """
    releases = [row for row in facts.releases(component) if row.status == "released" or row.version == text]
    place = next((number for number, row in enumerate(releases) if row.version == text), None)
    if place is None or place + 1 == len(releases):
        known = ", ".join(row.version for row in releases[:5])
        msg = f"unknown release {component} {text}" if place is None else f"no release comes before {text}"
        raise UsageError(msg, code="unknown-version", hint=f"the newest releases of {component}: {known}")
    before = releases[place + 1]
    found = [*_columns(facts, component, before.version, text)]
    for subject in facts.subjects:
        for table in facts.tables(subject):
            found += _statements(facts, (subject, table), component, (before.version, text))
    return before, found


def _columns(facts: Matrix, component: str, before: str, text: str) -> Iterator[str]:
    """The columns that are filled for the earlier release and empty for the later one."""
    rows = {row["version"]: row for row in facts.rows(component, "releases", dict)}
    for name in rows.get(before, {}):
        if name not in {*rows.get(text, {}), "note"}:
            yield f"{component}.yaml: releases: column {name} of {text} is empty"


def _statements(facts: Matrix, place: tuple[str, str], component: str, releases: tuple[str, str]) -> Iterator[str]:
    subject, table = place
    _, key, _ = facts.table_head(subject, table)
    names = _IDENTITY.get(table, tuple(name for name in key if name not in _TELLS_RELEASES_APART))
    if table == "releases" or not names:
        return
    rows = facts.rows(subject, table, dict)
    before, now = (
        {_name_columns(row, names) for row in rows if _is_about(row, place, component, one)} for one in releases
    )
    missing = sorted(before - now)
    if missing and not now and len(missing) > 1:
        yield f"{subject}.yaml: {table}: none of the {len(missing)} rows of {releases[0]} has one of {releases[1]}"
    else:
        yield from (f"{subject}.yaml: {table}: {' '.join(one)}" for one in missing)


def _name_columns(row: dict[str, Any], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{name} {_text(row[name])}" for name in names if row.get(name))


def _text(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name} {_text(one)}" for name, one in sorted(value.items()))
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _is_about(row: dict[str, Any], place: tuple[str, str], component: str, text: str) -> bool:
    """Whether a row applies to this release: to it alone, to its release line, or to a range that contains it."""
    subject, _ = place
    if "of" in row:
        of = str(row["of"])
        return of.startswith(component) and _holds(of[len(component) :], text)
    if row.get("component", subject) != component and not subject.startswith(f"{component}-"):
        return False
    if "versions" in row:
        return _holds(str(row["versions"]), text)
    own = row.get("version", row.get(component))
    return isinstance(own, str) and (own == text or text.startswith(f"{own}."))


def _holds(range_text: str, text: str) -> bool:
    try:
        return is_within(version(text).text, range_text)
    except ValueError:
        return False
