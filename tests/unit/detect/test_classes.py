"""Each class of findings has hosts that have it, and near ones without it that differ from one of them in one fact.

``tests/cases/changed-hosts.yaml`` has of each finding what makes another host of one that a test describes: ``has`` keeps
the finding, ``near`` takes its cause away. ``swap`` replaces texts wherever they stand in the evidence, ``put`` adds files,
``gone`` takes paths away, ``nvml`` says what NVML answers; ``like`` names the host, "" a machine with nothing wrong.
``live``, ``environ``, ``blobs`` and ``faults`` likewise. ``marks``, ``links`` and ``commands`` are added by their paths or words, ``packages`` and ``rpms`` as in host-threads.yaml
(or an rpm as the evidence has it, with tabs).
``each`` is a change for each of its names, which stand in place of ``EACH``. What is said of the hosts that have a finding is
held in ``tests/golden/detect/classes.txt``, and written anew with ``--update-golden``.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.finding_goldens import GOLDEN, ids
from tests.reading import cases_in
from tests.unit.detect import test_kernel_threads
from tests.unit.detect.test_changed_hosts import _hosts
from tests.unit.detect.test_host_threads import rpm_line, stanza

from gpustack.detect.evidence import Evidence
from gpustack.detect.problems import DETECTORS
from gpustack.detect.scene import build_scene
from gpustack.matrix.index import Matrix, load_matrix

CLASSES: dict[str, dict[str, Any]] = cases_in(Path(__file__).parents[2] / "cases/changed-hosts.yaml")["classes"]
PLACE = GOLDEN / "classes.txt"
HAVE, NEAR = 3, 2
_STATUS = "/var/lib/dpkg/status"
PRESENT = {"": "there", "x": "there"}
"""What stands for files of which only the existence is read."""


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def _swapped(value: Any, swaps: dict[str, str]) -> Any:
    """The value with these texts replaced in all its texts and names."""
    if isinstance(value, str):
        for old, new in swaps.items():
            value = value.replace(old, new)
        return value
    if isinstance(value, dict):
        return {_swapped(name, swaps): _swapped(one, swaps) for name, one in value.items()}
    return [_swapped(one, swaps) for one in value] if isinstance(value, list | tuple) else value


def changed(evidence: Evidence, change: dict[str, Any]) -> Evidence:
    """The evidence after one change, which must change something."""
    record = _swapped(msgspec.to_builtins(evidence), {})
    swapped = _swapped(record, change.get("swap", {}))
    for place in change.get("gone", ()):
        folder, _, name = place.rpartition("/")
        for kind in ("files", "links", "listings", "marks", "blobs"):
            swapped[kind].pop(place, None)
        names = swapped["listings"].get(folder, [])
        swapped["listings"] |= {folder: [one for one in names if one != name]} if name in names else {}
    for place, text in change.get("put", {}).items():
        folder, _, name = place.rpartition("/")
        swapped["marks" if text in PRESENT else "files"][place] = PRESENT.get(text, text)
        swapped["listings"][folder] = [*swapped["listings"].get(folder, []), name]
    for place, target in change.get("links", {}).items():
        folder, _, name = place.rpartition("/")
        swapped["links"][place] = target
        swapped["listings"][folder] = [*swapped["listings"].get(folder, []), name]
    swapped["marks"] |= change.get("marks", {})
    swapped["commands"] |= {words: {"code": 0, "out": out} for words, out in change.get("commands", {}).items()}
    swapped["rpms"] += [line if "\t" in line else rpm_line(line) for line in change.get("rpms", ())]
    stanzas = "".join(map(stanza, change.get("packages", ())))
    if stanzas:
        swapped["files"][_STATUS] = f"{swapped['files'].get(_STATUS, '').strip()}\n\n{stanzas}".lstrip()
    swapped |= {name: change[name] for name in ("nvml", "live", "environ", "blobs", "faults") if name in change}
    assert swapped != record, change["but"]
    return msgspec.convert(swapped, Evidence)


@cache
def _changes() -> list[tuple[str, str, str, dict[str, Any]]]:
    return [
        (identity, kind, one.get("like", of["like"]), one)
        for identity, of in CLASSES.items()
        for kind in ("has", "near")
        for change in of.get(kind, ())
        for one in _each(change)
    ]


def _each(change: dict[str, Any]) -> list[dict[str, Any]]:
    """The change once, or for each of the names that it is about."""
    return [_swapped(change, {"EACH": str(name)}) for name in change.get("each", ["EACH"])]


def told(identity: str, evidence: Evidence, matrix: Matrix) -> list[str]:
    """What the detector says, each finding in one line."""
    reboots = {True: ", reboot", False: "", None: ", maybe a reboot"}
    return [
        f"{one.severity or 'as its row'}{reboots[one.reboot]}: {one.message} | {one.fix} {' '.join(one.sources)}".strip()
        for one in DETECTORS[identity](build_scene(evidence, matrix))
    ]


@pytest.mark.parametrize("identity", CLASSES)
def test_a_finding_stays_or_goes_with_its_cause(
    identity: str, matrix: Matrix, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    wrong, said = [], []
    for number, (_, kind, host, change) in enumerate(one for one in _changes() if one[0] == identity):
        before = msgspec.structs.replace(_hosts()[host](tmp_path / str(number)), date="2026-11-21")
        assert "like" in change or told(identity, before, matrix), host
        after = told(identity, changed(before, change), matrix)
        wrong += [(change["but"], after)] if bool(after) != (kind == "has") else []
        name = change["but"].replace("\n", " ")
        said += [f"  {name}: {one}" for one in after]
    assert wrong == []
    held = _held()
    if request.config.getoption("--update-golden"):
        blocks = ("\n".join((f"[{one}]", *lines)) for one, lines in sorted({**held, identity: said}.items()))
        PLACE.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
        return
    assert said == held[identity]


def _held() -> dict[str, list[str]]:
    """The golden's lines by finding."""
    blocks = PLACE.read_text(encoding="utf-8").strip().split("\n\n") if PLACE.is_file() else []
    return {lines[0].strip("[]"): lines[1:] for lines in (block.splitlines() for block in blocks)}


def test_every_class_has_three_hosts_that_have_it_and_two_near_ones_that_have_not() -> None:
    have = [identity for host, of in ids().items() if host in _hosts() for identity in of.split()]
    have += [identity for identity, kind, _, _ in _changes() if kind == "has"]
    near = [identity for identity, kind, _, _ in _changes() if kind == "near"]
    near += [identity for one in test_kernel_threads.THREADS for identity in one.get("silent", ())]
    lacking = {
        identity: (have.count(identity), near.count(identity))
        for identity in DETECTORS
        if have.count(identity) < HAVE or near.count(identity) < NEAR
    }
    assert lacking == {}
