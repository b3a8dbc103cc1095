"""What each piece of a host's evidence is for: without it the finding goes, changes its words or stays, as the golden holds.

``tests/golden/detect/pieces.txt`` has a block for each finding and host: the files, lines of files, links, marks, names in
folders, commands and packages without which another thing is said, grouped by what is said then. Near hosts of
``changed-hosts.yaml`` are there where the piece is what keeps them from the finding. With ``--update-golden`` it is written
anew: a line that goes says that a condition no longer counts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace
from tests.finding_goldens import GOLDEN, ids
from tests.unit.detect.test_changed_hosts import _hosts
from tests.unit.detect.test_classes import _changes, changed, told

from gpustack.detect.evidence import Evidence
from gpustack.detect.problems import DETECTORS
from gpustack.matrix.index import Matrix, load_matrix

PLACE = GOLDEN / "pieces.txt"
DAY = "2026-11-21"
MOST_HOSTS, MOST_PIECES, MOST_LINES = 8, 40, 30
"""So many hosts of a finding are taken apart, of so many pieces at most; and files of so many lines line by line."""

_KINDS = ("files", "links", "marks", "blobs", "commands", "environ")
_IN_BLOCKS = re.compile(r"/dpkg/status$|/history\.log$")


def pieces(evidence: Evidence) -> Iterator[tuple[str, Evidence]]:
    """The evidence without one piece of it, each with what it lacks."""
    for kind in _KINDS:
        there = getattr(evidence, kind)
        for name in there:
            yield name, replace(evidence, **{kind: {one: value for one, value in there.items() if one != name}})
    for path, text in evidence.files.items():
        end = "\n\n" if _IN_BLOCKS.search(path) else "\n"
        parts = [part for part in text.split(end) if part.strip()]
        for number, part in enumerate(parts if 1 < len(parts) <= MOST_LINES else ()):
            rest = end.join((*parts[:number], *parts[number + 1 :], ""))
            yield (
                f"{path}: {part.strip().splitlines()[0][:60]}",
                replace(evidence, files={**evidence.files, path: rest}),
            )
    for folder, names in evidence.listings.items():
        others = {place: one for place, one in evidence.listings.items() if place != folder}
        yield f"{folder}/", replace(evidence, listings=others)
        for name in names:
            rest = tuple(one for one in names if one != name)
            yield f"{folder}/ {name}", replace(evidence, listings={**others, folder: rest})
    for number, line in enumerate(evidence.rpms):
        rpms = (*evidence.rpms[:number], *evidence.rpms[number + 1 :])
        yield f"rpm {line.partition(chr(9))[0]}", replace(evidence, rpms=rpms)
    for field, none in (("nvml", None), ("live", False), ("excerpt", False), ("date", "")):
        if getattr(evidence, field):
            yield field, replace(evidence, **{field: none})


def _size(evidence: Evidence) -> int:
    return sum(len(getattr(evidence, kind)) for kind in _KINDS) + len(evidence.rpms)


@cache
def _makers() -> dict[str, dict[str, Any]]:
    """What makes the evidence of the hosts of each finding, and of its near ones, by their names."""
    makers: dict[str, dict[str, Any]] = defaultdict(dict)
    for host, of in ids().items():
        for identity in of.split() if host in _hosts() else ():
            makers[identity][host] = _hosts()[host]
    for identity, kind, host, change in _changes():
        makers[identity][f"{kind}: {' '.join(str(change['but']).split())}"] = lambda root, host=host, change=change: (
            changed(_hosts()[host](root), change)
        )
    return makers


def _held() -> dict[tuple[str, str], list[str]]:
    """The golden's lines by finding and host."""
    found: dict[tuple[str, str], list[str]] = {}
    for block in PLACE.read_text(encoding="utf-8").split("\n\n") if PLACE.is_file() else ():
        head, *lines = block.strip("\n").splitlines()
        identity, host = head.removeprefix("[").split("] ", 1)
        found[identity, host] = lines
    return found


def _differences(identity: str, evidence: Evidence, matrix: Matrix) -> list[str]:
    """What is said without the pieces that matter, each with these pieces."""
    before = told(identity, evidence, matrix)
    without: dict[str, list[str]] = defaultdict(list)
    for name, lesser in pieces(evidence):
        after = told(identity, lesser, matrix)
        if after != before:
            new = " + ".join(one for one in after if one not in before)
            without[new or ("less" if after else "nothing")].append(name)
    return [f"  {said}\n    without {' or '.join(names)}" for said, names in without.items()]


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


@pytest.fixture(scope="module")
def evidence_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Evidence]:
    """The evidence of a host, which is gathered once for all its findings."""
    root = tmp_path_factory.mktemp("hosts")
    kept: dict[Any, Evidence] = {}

    def make(identity: str, host: str) -> Evidence:
        maker = _makers()[identity][host]
        if maker not in kept:
            kept[maker] = replace(maker(root / str(len(kept))), date=DAY)
        return kept[maker]

    return make


@pytest.mark.parametrize("identity", sorted(DETECTORS))
def test_what_is_said_without_a_piece_of_the_evidence(
    identity: str, matrix: Matrix, evidence_of: Callable[[str, str], Evidence], request: pytest.FixtureRequest
) -> None:
    held = {host: lines for (one, host), lines in _held().items() if one == identity}
    if request.config.getoption("--update-golden"):
        _write(identity, _chosen(identity, [*held], matrix, evidence_of))
        return
    for host, lines in held.items():
        found = "\n".join(_differences(identity, evidence_of(identity, host), matrix)).splitlines()
        assert found == lines, (identity, host)


def _chosen(
    identity: str, first: list[str], matrix: Matrix, evidence_of: Callable[[str, str], Evidence]
) -> dict[str, list[str]]:
    """The hosts of which without a piece something is said that is said of none before them."""
    makers = _makers()[identity]
    names = [*(host for host in first if host in makers), *(host for host in makers if host not in first)]
    small = [host for host in names if _size(evidence_of(identity, host)) <= MOST_PIECES]
    chosen: dict[str, list[str]] = {}
    seen: set[str] = set()
    for host in small or names[:1]:
        if len(chosen) == MOST_HOSTS:
            break
        evidence = evidence_of(identity, host)
        lines = _differences(identity, evidence, matrix)
        shapes = {re.sub(r"\d+", "0", line.splitlines()[0]) for line in lines}
        if shapes - seen:
            chosen[host] = lines
            seen |= shapes
    return chosen


def _write(identity: str, chosen: dict[str, list[str]]) -> None:
    held = {key: lines for key, lines in _held().items() if key[0] != identity}
    held |= {(identity, host): lines for host, lines in chosen.items()}
    blocks = ("\n".join((f"[{one}] {host}", *lines)) for (one, host), lines in sorted(held.items()))
    PLACE.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
