"""A year of the vendor's days, in order, ends in the facts as they are; on its day each release is known as seen.

The machine reads the bodies of a day as the server had them. Then a person writes what only a person may: that the
release is judged, and that the sum of its manifest was compared. Everything else of these files is the machine's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.update.serving import Answer, serving

from gpustack.model.facts import SEEN
from gpustack.versions import version
from update.fetch import fetch
from update.merge import Diff, Waiting, merge
from update.record import Body, Row, load
from update.sources import source
from update.sources.index import project_of
from update.sources.wheels import PROJECTS
from update.tables import MATRICES, Facts, declined, key_of
from update.witnesses import Witnesses

BODIES = Path(__file__).parent / "bodies"
BEGIN = "2025-11-23"
LAST = "9999"
BY_HAND = (
    ("cuda", "releases"),
    ("cudnn", "releases"),
    ("nccl", "releases"),
    ("driver", "releases"),
    ("cuda-manifests", "manifests"),
    ("cudnn-archives", "manifests"),
)
NAMES = ("redist", "wheels", "csaf")


@cache
def recorded(name: str) -> tuple[Body, ...]:
    return load(BODIES / f"{name}.xz")


def day_of(body: Body) -> str:
    """The day on which a manifest or bulletin appeared."""
    return str(json.loads(body.data)["release_date"]) if "redistrib" in body.address else body.day


def uploads(body: Body) -> set[str]:
    """The days on which a project's page grew; a digest of a wheel is none."""
    if not body.address.endswith("/"):
        return set()
    return {str(one["upload-time"])[:10] for one in json.loads(body.data)["files"]}


def page_on(body: Body, day: str) -> Body:
    """A project's page as the index had it on a day; a digest of a wheel is always the same."""
    if not body.address.endswith("/"):
        return body
    page = json.loads(body.data)
    page["files"] = [one for one in page["files"] if one["upload-time"][:10] <= day]
    return body._replace(day=day, data=json.dumps(page).encode())


def is_part(body: Body) -> bool:
    """Whether a body is about the wheels of CUDA: they are a release only together."""
    return not body.address.endswith("/") or PROJECTS[project_of(body)].component == "cuda"


@cache
def toolkit_days() -> frozenset[str]:
    """The days on which the last wheel of a release of CUDA appeared."""
    parts = [body for body in recorded("wheels") if is_part(body)]
    pages = [json.loads(body.data)["files"] for body in parts if body.address.endswith("/")]
    days = {one["filename"]: one["upload-time"][:10] for page in pages for one in page}
    last: dict[str, str] = {}
    for found in source("wheels").rows(parts).rows:
        last[found.row["version"]] = max(days[found.row["file"]], last.get(found.row["version"], ""))
    return frozenset(last.values())


def of_day(day: str) -> Iterator[tuple[str, tuple[Body, ...]]]:
    """The sources with anything new on a day, and their bodies on that day."""
    for name in ("redist", "csaf"):
        found = tuple(body for body in recorded(name) if day_of(body) == day)
        if found:
            yield name, found
    is_toolkit = day in toolkit_days()
    pages = tuple(
        page_on(body, day)
        for body in recorded("wheels")
        if (is_toolkit if is_part(body) else day in uploads(body)) or not body.address.endswith("/")
    )
    if any(body.address.endswith("/") for body in pages):
        yield "wheels", pages


def days() -> list[str]:
    found = {day_of(body) for name in ("redist", "csaf") for body in recorded(name)}
    found |= {day for body in recorded("wheels") if not is_part(body) for day in uploads(body)} | toolkit_days()
    return sorted(day for day in found if day >= BEGIN)


def machine_rows() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The rows that bodies of the year give: subject, table and key."""
    facts = Facts()
    early = {name: {one.address for one in recorded(name) if day_of(one) < BEGIN} for name in ("redist", "csaf")}
    for name in NAMES:
        bodies = tuple(page_on(body, "2025-11-22") for body in recorded(name)) if name == "wheels" else ()
        before = source(name).rows(bodies or tuple(one for one in recorded(name) if one.address in early[name]))
        old = {(one.subject, one.table, key_of(one.row, facts.key(one.subject, one.table))) for one in before.rows}
        for one in source(name).rows(recorded(name)).rows:
            place = (one.subject, one.table, key_of(one.row, facts.key(one.subject, one.table)))
            if place not in old:
                yield place


def is_older(row: Row, rows: list[Row]) -> bool:
    """Whether a row by hand was there at the beginning; one without a day, if a dated release is newer."""
    if day := row.get("date") or row.get("release_date"):
        return str(day) < BEGIN
    dated = [version(one["version"]) for one in rows if (one.get("date") or one.get("release_date") or "9") < BEGIN]
    return version(row["version"]) < max(dated)


def at_the_beginning(end: Facts, folder: Path = MATRICES) -> Facts:
    """The facts of a folder without what the year brought."""
    facts = Facts(folder)
    year = set(machine_rows())
    for subject, table in {(subject, table) for subject, table, _ in year} | set(BY_HAND):
        names = facts.key(subject, table)
        rows = facts.rows(subject, table)
        kept = [row for row in rows if (subject, table, key_of(row, names)) not in year]
        rows[:] = [row for row in kept if (subject, table) not in BY_HAND or is_older(row, kept)]
    assert sum(map(len, (facts.rows(*place) for place in BY_HAND))) < sum(
        map(len, (end.rows(*place) for place in BY_HAND))
    )
    return facts


def run(facts: Facts, today: list[tuple[str, tuple[Body, ...]]]) -> dict[str, Diff]:
    """One run of the updater: what every source gives, and what is applied of it."""
    given = {name: source(name).rows(bodies) for name, bodies in today}
    witnesses = Witnesses(facts)
    for name, one in given.items():
        witnesses.add(name, one)
    diffs = {name: merge(name, one, facts, witnesses, declined()) for name, one in given.items()}
    for diff in diffs.values():
        for found in diff.changes:
            facts.put(found.subject, found.table, [found.row])
    return diffs


def write_by_hand(facts: Facts, end: Facts, names: set[tuple[str, str]], day: str) -> None:
    """What a person adds after a day: the judged releases, the sums of manifests, and cells no body has."""
    for subject, table in BY_HAND:
        names_of = facts.key(subject, table)
        have = facts.by_key(subject, table)
        for key, row in end.by_key(subject, table).items():
            is_due = (row.get("date") or row.get("release_date") or LAST) <= day or (subject, row["version"]) in names
            if is_due and (key not in have or have[key].get("status") == SEEN):
                facts.put(subject, table, [row])
                assert key_of(row, names_of) == key


def decide(facts: Facts, end: Facts, waiting: Iterable[Waiting]) -> None:
    """A person accepts the releases that only a bulletin knows: those of Windows stand in no other source."""
    for one in waiting:
        subject, table, row = one.found
        if key_of(row, end.key(subject, table)) in end.by_key(subject, table):
            facts.put(subject, table, [row])


BY_HAND_CELLS = {"cudnn-archives": {"note"}, "wheels": {"note", "requires", "size"}}
"""Cells that no body has: remarks, what the metadata inside a wheel says, and the size of a few."""


def by_machine(row: Row, subject: str) -> Row:
    return {name: value for name, value in row.items() if name not in BY_HAND_CELLS[subject]}


@pytest.mark.slow
def test_a_year_of_days_ends_in_the_facts_as_they_are() -> None:
    """Read the year day by day, write what a person writes, and compare the end with the facts."""
    end = Facts()
    facts = at_the_beginning(end)
    assert len(days()) > 40
    for day in days():
        today = list(of_day(day))
        diffs = run(facts, today)
        assert {name: diff.stops for name, diff in diffs.items() if diff.stops} == {}, day
        named = {
            (found.subject, found.row["version"])
            for name, bodies in today
            for found in source(name).rows(bodies).rows
            if found.table == "releases"
        }
        for component, release in named:
            known = {row["version"] for row in facts.rows(component, "releases")}
            assert release in known, f"{component} {release} is not answered on {day}"
        write_by_hand(facts, end, named, day)
        decide(facts, end, diffs["csaf"].waiting if "csaf" in diffs else ())
        assert not any(diff.stops for diff in run(facts, today).values()), day
    write_by_hand(facts, end, set(), LAST)
    run(facts, [("wheels", recorded("wheels"))])
    for subject in ("cuda-redist", "security"):
        assert facts.text(subject) == end.text(subject), subject
    for subject in BY_HAND_CELLS:
        made, wanted = facts.by_key(subject, "archives"), end.by_key(subject, "archives")
        assert set(made) == set(wanted)
        assert {key for key in made if by_machine(made[key], subject) != by_machine(wanted[key], subject)} == set()


def test_a_day_is_read_from_a_server() -> None:
    day = "2026-09-16"
    body = next(one for one in recorded("redist") if day_of(one) == day)
    path = body.address.removeprefix("https://developer.download.nvidia.com")
    with serving({path: Answer(body.data, etag='"1"')}) as (home, statuses):
        read = fetch(home + path)
        assert fetch(home + path, read) is read
    facts = at_the_beginning(Facts())
    diff = run(facts, [("redist", (read._replace(address=body.address),))])["redist"]
    assert [found.row["version"] for found in diff.changes] == ["13.4.2"]
    assert statuses == [200, 304]
