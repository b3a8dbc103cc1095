"""A year of the daily job, day by day, against a server on loopback that also fails: it ends in the files as they are.

What no recorded body has is composed in its form: which tags and drivers of the list there were on a day, the index of
the bulletins, and folders with nothing new. A person does after each day what docs/maintaining.md says.
"""

from __future__ import annotations

import datetime as dt
import difflib
import gzip
import hashlib
import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.update.serving import Answer, serving
from tests.update.test_daily import elsewhere, without_unknown
from tests.update.test_replay import (
    BEGIN,
    BODIES,
    BY_HAND_CELLS,
    LAST,
    at_the_beginning,
    day_of,
    days,
    page_on,
    recorded,
    toolkit_days,
    write_by_hand,
)

from update.__main__ import daily, read
from update.daily import Servers
from update.record import Body, Row, load
from update.sources import csaf, releases, tags
from update.tables import MATRICES, Facts

KINDS = {"LTS": "lts branch", "PB": "production branch", "NFB": "new feature branch"}
PAGE = Answer(b"<!DOCTYPE html><title>Sign in</title>")
BOMB = Answer(gzip.compress(bytes(65 << 20)), {"Content-Encoding": "gzip"})
GONE = Answer(b"not here", status=404)
FAULTS = (
    ("releases", "releases.json", PAGE),
    ("wheels", "/nvidia-nccl-cu12/", Answer(b'{"files": [', length=900)),
    ("tags", "/NVIDIA/nccl.git/info/refs?service=git-upload-pack", BOMB),
    ("apt", "/ubuntu2404/x86_64/Release", GONE),
    ("csaf", "/5703/5703.json", GONE),
    ("redist", "/redistrib_12.4.1.json", PAGE),
)
"""What goes wrong: the source that has to stop, the end of the path, and the answer."""


@cache
def end() -> Facts:
    return Facts()


@cache
def dated(component: str) -> dict[str, str]:
    """The releases of a component whose day is known, with it."""
    return {row["version"]: row["date"] for row in end().rows(component, "releases") if len(row.get("date", "")) == 10}


@cache
def drivers() -> tuple[Row, ...]:
    """The releases of the data-centre drivers for Linux whose day is known."""
    rows = end().rows("driver", "releases")
    return tuple(
        row
        for row in rows
        if "dc" in row.get("channel", ()) and row["os"] == ["linux"] and len(row.get("date", "")) == 10
    )


def list_of_drivers(day: str) -> bytes:
    branches: dict[str, Row] = {}
    for row in drivers():
        number = row["version"]
        if row["date"] > day or row.get("kind") not in KINDS or number.partition(".")[0] != row["branch"]:
            continue
        one = {
            "release_version": number,
            "release_date": row["date"],
            "release_notes": f"https://docs.nvidia.com/datacenter/tesla/notes-{number.replace('.', '-')}/index.html",
            "architectures": ["x86_64"],
            "runfile_url": {
                "x86_64": f"https://us.download.nvidia.com/tesla/{number}/NVIDIA-Linux-x86_64-{number}.run"
            },
        }
        branches.setdefault(row["branch"], {"type": KINDS[row["kind"]], "driver_info": []})["driver_info"].append(one)
    return json.dumps(branches).encode()


def tags_on(name: str, day: str) -> bytes:
    """The tags of a repository on a day: those recorded, without the later ones; FFmpeg's are those of the facts."""
    about = tags.REPOSITORIES[name]
    days_of = dated(about.component)
    body = next((one for one in load(BODIES / "tags.xz") if f"/{name}.git/" in one.address), None)
    if body is None:
        known = [row for row in end().rows(about.component, "releases") if "commit" in row]
        return tags.packets([f"{row['commit']} refs/tags/{row['tag']}" for row in known if row.get("date", "") <= day])
    later = {version for version, one in days_of.items() if one > day}
    lines = [line for line in tags._lines(body) if not any(f"/{tag}" in line for tag in map(about_tag(name), later))]
    return tags.packets(lines)


def about_tag(name: str) -> Callable[[str], str]:
    return {"NVIDIA/nccl": "v{}-1", "FFmpeg/nv-codec-headers": "n{}", "FFmpeg/FFmpeg": "n{}"}.get(name, "v{}").format


def index_of_bulletins(year: str, day: str) -> bytes:
    """The index of a year's bulletins on a day, a line for each."""
    lines = [";".join(csaf._COLUMNS)]
    for body in recorded("csaf"):
        if f"/main/{year}/" in body.address and body.address.endswith(".json") and body.day <= day:
            product = "GeForce" if b"geforce" in body.data else "NVIDIA Container Toolkit"
            lines.append(f"CVE-{year}-1;7.8;HIGH;AV:L;CWE-1;{Path(body.address).stem};{product};All;Fixed")
    return "\n".join(lines).encode()


@cache
def always() -> dict[str, bytes]:
    """The folders of packages, in which nothing is new."""
    return {path: data for path, data in elsewhere() if path.endswith(("/Release", "/Packages"))}


def served(day: str) -> Iterator[tuple[str, bytes]]:
    """What all servers have on a day."""
    yield from always().items()
    mirror = "/mirror/{}".format
    for name in tags.REPOSITORIES:
        yield mirror(f"github.com/{name}.git/info/refs?service=git-upload-pack"), tags_on(name, day)
    yield mirror(releases.ADDRESS.removeprefix("https://")), list_of_drivers(day)
    for year in {day[:4], str(int(day[:4]) - 1)}:
        yield mirror(csaf.INDEX.format(year=year).removeprefix("https://")), index_of_bulletins(year, day)
    for name in ("redist", "csaf"):
        yield from ((mirror(one.address[8:]), one.data) for one in recorded(name) if day_of(one) <= day)
    pages = (one for one in wheels() if one.address.endswith("/"))
    yield from ((one.address, page_on(one, day).data) for one in pages)


@cache
def wheels() -> tuple[Body, ...]:
    """The pages of the index without the one release that nobody has judged yet, and the digests."""
    return tuple(
        one._replace(data=without_unknown(one)) if one.address.endswith("/") else one for one in recorded("wheels")
    )


def all_days() -> list[str]:
    found = {row["date"] for row in drivers()}
    for name in tags.REPOSITORIES:
        found |= set(dated(tags.REPOSITORIES[name].component).values())
    return sorted({*days(), *(day for day in found if BEGIN <= day <= "2026-11-23")})


def known_on(day: str, facts: Facts) -> Iterator[str]:
    """The releases of a day that the facts do not answer: neither judged nor seen."""
    for component in ("driver", *(about.component for about in tags.REPOSITORIES.values())):
        have = {row["version"] for row in facts.rows(component, "releases")}
        wanted = {row["version"] for row in drivers()} if component == "driver" else set(dated(component))
        yield from (one for one in wanted if dated(component)[one] == day and one not in have)


def person(facts: Facts, day: str) -> None:
    """Judge what was seen, add the sums of manifests, read inside the wheels of the day; remove what is then unused."""
    write_by_hand(facts, end(), judged(facts), day)
    if day in toolkit_days() or any(day == one["upload-time"][:10] for one in uploads("cudnn")):
        read(facts, "wheels", tuple(page_on(body, day) for body in wheels()), is_written=True)
    for subject in ("cuda", "cudnn", "nccl", "driver"):
        document, whole = facts.document(subject), end().document(subject)
        if not any("status" in row and row["status"] == "seen" for row in document["tables"]["releases"]["rows"]):
            document["sources"] = {key: one for key, one in document["sources"].items() if key in whole["sources"]}
            document["tables"]["releases"]["fields"] = dict(whole["tables"]["releases"]["fields"])
    facts.write()


@cache
def uploads(word: str) -> tuple[Row, ...]:
    pages = (json.loads(one.data) for one in wheels() if one.address.endswith("/") and word in one.address)
    return tuple(file for page in pages for file in page["files"])


def judged(facts: Facts) -> set[tuple[str, str]]:
    """The releases that were only seen so far: a person reads their requirements."""
    rows = ((name, row) for name in ("cuda", "cudnn", "nccl", "driver") for row in facts.rows(name, "releases"))
    return {(name, row["version"]) for name, row in rows if row.get("status") == "seen"}


@pytest.mark.slow
def test_a_year_of_the_daily_job_ends_in_the_files_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(MATRICES, tmp_path / "facts")
    facts = at_the_beginning(end(), tmp_path / "facts")
    for subject in facts.subjects:
        for table in facts.document(subject)["tables"]:
            facts.put(subject, table, [])
    facts.write()
    assert len(all_days()) > 60
    answers: dict[str, Answer] = {}
    with serving(answers) as (home, statuses):
        servers = Servers(f"{home}/simple", f"{home}/mirror", tmp_path / "kept")
        for number, day in enumerate(all_days()):
            answers.clear()
            answers |= {path: Answer(data, etag=hashlib.sha256(data).hexdigest()) for path, data in served(day)}
            today = dt.date.fromisoformat(day)
            if number % 8 == 3:
                name, ending, fault = FAULTS[number // 8 % len(FAULTS)]
                (path,) = (path for path in answers if path.endswith(ending))
                sound, answers[path] = answers[path], fault
                assert daily(facts, servers, today, is_written=True) == 2
                said = capsys.readouterr().out.splitlines()
                assert [line.partition(":")[0] for line in said if ": STOPPED: " in line] == [name], (day, said)
                answers[path] = sound
            statuses.clear()
            assert daily(facts, servers, today, is_written=True) < 2, capsys.readouterr().out
            assert number == 0 or statuses.count(304) > statuses.count(200), day
            assert list(known_on(day, facts)) == [], day
            person(facts, day)
            capsys.readouterr()
        write_by_hand(facts, end(), set(), LAST)
        for _ in range(2):
            assert daily(facts, servers, dt.date(2026, 11, 23), is_written=True) < 2
        read(facts, "wheels", wheels(), is_written=True)
    cells_of_a_person(facts)
    facts.write()
    wrong = {path.name: lines for path in MATRICES.rglob("*.yaml") if (lines := differing(path, tmp_path / "facts"))}
    assert wrong == {}


def differing(path: Path, folder: Path) -> list[str]:
    """The first lines in which a file of the year's end is not the file of the facts."""
    made = (folder / path.relative_to(MATRICES)).read_text(encoding="utf-8")
    whole = path.read_text(encoding="utf-8")
    lines = difflib.unified_diff(made.splitlines(), whole.splitlines(), lineterm="", n=0)
    return list(itertools.islice(lines, 20)) if made != whole else []


def cells_of_a_person(facts: Facts) -> None:
    """Fill the cells that no body has, and decide those that waited; a row that the machine did not make stays away.

    The order of the cells in a line is the person's too.
    """
    cells = {(subject, "archives"): names for subject, names in BY_HAND_CELLS.items()}
    for (subject, table), names in {**cells, ("cudnn", "pip_versions"): {"platforms", "size"}}.items():
        for key, row in facts.by_key(subject, table).items():
            whole = end().by_key(subject, table)[key]
            filled = {**row, **{name: whole[name] for name in names if name in whole}}
            row.clear()
            row.update({name: filled.pop(name) for name in whole if name in filled} | filled)
        facts.put(subject, table, [])
