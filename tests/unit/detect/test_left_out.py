"""What each finding rests on: of its hosts each piece of evidence is left out in turn.

``tests/golden/detect/left-out.txt`` has a block for each finding and host: the pieces without which something else is said,
and what that is. A condition that nothing asks for shows as a piece that does not matter, one that is lost as a piece that
no longer does. With ``--update-golden`` it is written anew; each line that moved is to be read as what is said of a host
that lacks just this.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.finding_goldens import GOLDEN, ids
from tests.unit.detect import test_changed_hosts, test_classes
from tests.unit.detect.test_classes import told

from gpustack.detect.evidence import Evidence
from gpustack.detect.problems import DETECTORS
from gpustack.matrix.index import Matrix, load_matrix

PLACE = GOLDEN / "left-out.txt"
MOST = 4
"""So many hosts of each finding are looked at, next to those that differ from them in one way."""

_HOST = "  of "
_STATUS = "/var/lib/dpkg/status"
_LONG = 12
"""Of texts and folders up to so many lines and names each is left out."""


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def _wholes(evidence: Evidence) -> Iterator[tuple[str, Evidence]]:
    """The evidence without each file, folder, mark, command, package and the like."""
    for kind in ("files", "links", "marks", "blobs", "commands", "environ"):
        for name in getattr(evidence, kind):
            yield name, _without(evidence, kind, name)
    for folder in evidence.listings:
        yield f"{folder}/", _without(evidence, "listings", folder)
    for line in evidence.rpms:
        yield _short(line), replace(evidence, rpms=tuple(one for one in evidence.rpms if one != line))
    for field, value in (("nvml", None), ("live", False), ("date", ""), ("excerpt", False)):
        if getattr(evidence, field) != value:
            yield field, replace(evidence, **{field: value})


def _parts(evidence: Evidence) -> Iterator[tuple[str, str, Evidence]]:
    """The evidence without each line of a text, package of dpkg's status, and name in a folder."""
    for path, text in evidence.files.items():
        join = "\n\n" if path == _STATUS else "\n"
        parts = text.strip().split(join)
        for number, part in enumerate(parts) if 1 < len(parts) <= _LONG else ():
            rest = join.join(parts[:number] + parts[number + 1 :])
            yield path, _short(part), replace(evidence, files={**evidence.files, path: f"{rest}\n"})
    for folder, names in evidence.listings.items():
        for name in names if 1 < len(names) <= _LONG else ():
            rest = tuple(one for one in names if one != name)
            yield f"{folder}/", name, replace(evidence, listings={**evidence.listings, folder: rest})


def _without(evidence: Evidence, kind: str, name: str) -> Evidence:
    return replace(evidence, **{kind: {one: it for one, it in getattr(evidence, kind).items() if one != name}})


def _short(text: str) -> str:
    return re.sub(r"\s+", " ", text.strip())[:60]


@cache
def _held() -> dict[str, list[str]]:
    """The golden's blocks by finding: of each host a line, and below it what differs without a piece."""
    blocks = PLACE.read_text(encoding="utf-8").strip().split("\n\n") if PLACE.is_file() else []
    return {lines[0].strip("[]"): lines[1:] for lines in (block.splitlines() for block in blocks)}


def _hosts(identity: str, root: Path, *, is_update: bool) -> Iterator[tuple[str, Evidence]]:
    """Hosts of other tests that the detector speaks of, and those that differ from them in one way, by their names."""
    makers, number = test_changed_hosts._hosts(), count()
    speaks = [host for host, of in ids().items() if identity in of.split() and host in makers]
    held = [one.removeprefix(_HOST) for one in _held().get(identity, ()) if one.startswith(_HOST)]
    known = [one for one in held if one in speaks]
    for host in [*dict.fromkeys([*known, *speaks])][:MOST] if is_update else known:
        yield host, makers[host](root / str(next(number)))
    for one, kind, like, change in test_classes._changes():
        if one == identity:
            before = replace(makers[like](root / str(next(number))), date="2026-11-21")
            yield f"{kind} {change['but']}".replace("\n", " "), test_classes.changed(before, change)


def _differences(identity: str, evidence: Evidence, matrix: Matrix) -> Iterator[str]:
    before = told(identity, evidence, matrix)
    wholes = {}
    for name, rest in _wholes(evidence):
        wholes[name] = told(identity, rest, matrix)
        yield from _lines(name, wholes[name], before)
    for whole, part, rest in _parts(evidence):
        after = told(identity, rest, matrix)
        is_same = after == wholes[whole] != before
        yield from [f"    {whole} {part} = the same"] if is_same else _lines(f"{whole} {part}", after, before)


def _lines(piece: str, after: list[str], before: list[str]) -> Iterator[str]:
    """What is said without that piece, where it is not what is said with it."""
    if after != before:
        new = [one for one in after if one not in before] or ["less" if after else "nothing"]
        yield from (f"    {piece} = {one}".replace("\n", " ") for one in new)


@pytest.mark.parametrize("identity", sorted(DETECTORS))
def test_what_each_piece_of_evidence_decides(
    identity: str, matrix: Matrix, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    said, is_update = [], bool(request.config.getoption("--update-golden"))
    for host, evidence in _hosts(identity, tmp_path, is_update=is_update):
        said += [f"{_HOST}{host}", *_differences(identity, evidence, matrix)]
    if is_update:
        _held()[identity] = said
        blocks = ("\n".join((f"[{one}]", *lines)) for one, lines in sorted(_held().items()))
        PLACE.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
        return
    assert said == _held()[identity]
