"""Hosts with a finding, each changed in one way: the finding stays, changes its words or goes, as the golden holds.

``tests/golden/detect/changed.txt`` has a block for each finding and host, and of each change what differs then: that
nothing is found in a container, or that the fix is a command of the other package manager. With ``--update-golden`` it is
written anew; each line that moved is to be read as what a user of that host would be told.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.finding_goldens import GOLDEN, ids, mark, marks, named, texts
from tests.unit.detect import test_fixtures, test_host_threads, test_kernel_threads, test_pasted, test_problems

from gpustack.detect.evidence import RECORD, Evidence
from gpustack.detect.gather import gather
from gpustack.detect.pasted import read_pasted
from gpustack.detect.problems import DETECTORS
from gpustack.detect.record import read_record
from gpustack.detect.scene import build_scene
from gpustack.matrix.index import Matrix, load_matrix

PLACE = GOLDEN / "changed.txt"
MOST = 4
"""So many hosts of each finding are changed."""

BUS = "/sys/bus/pci/devices"


def _files(evidence: Evidence, **files: str) -> Evidence:
    return replace(evidence, files={**evidence.files, **files})


def _lacking(evidence: Evidence, like: str) -> Evidence:
    """The evidence without the files, links, listings and marks whose path is like that."""
    kept = {
        name: {path: one for path, one in getattr(evidence, name).items() if not re.match(like, path)}
        for name in ("files", "links", "listings", "marks", "blobs")
    }
    return replace(evidence, **kept)


def _system(text: str) -> Callable[[Evidence], Evidence]:
    return lambda one: _files(one, **{"/etc/os-release": text})


def _mark(path: str) -> Callable[[Evidence], Evidence]:
    return lambda one: replace(one, marks={**one.marks, path: "there"})


CHANGES: dict[str, Callable[[Evidence], Evidence]] = {
    "in a container": _mark("/.dockerenv"),
    "in WSL": _mark("/dev/dxg"),
    "in a virtual machine": lambda one: _files(one, **{"/sys/class/dmi/id/sys_vendor": "QEMU\n"}),
    "composed by rpm-ostree": _mark("/run/ostree-booted"),
    "on Ubuntu": _system('ID=ubuntu\nVERSION_ID="24.04"\n'),
    "on Fedora": _system('ID=fedora\nVERSION_ID=41\nPLATFORM_ID="platform:f41"\n'),
    "on Amazon Linux 2": _system('ID="amzn"\nVERSION_ID="2"\n'),
    "on CentOS 7": _system('ID="centos"\nVERSION_ID="7"\n'),
    "on Silverblue": lambda one: _mark("/run/ostree-booted")(_system("ID=fedora\nVERSION_ID=41\n")(one)),
    "of an image of Universal Blue": lambda one: _files(
        one, **{"/usr/share/ublue-os/image-info.json": '{"image-name": "bazzite-nvidia-open"}'}
    ),
    "on Void": _system("ID=void\n"),
    "on Leap": _system('ID=opensuse-leap\nID_LIKE="suse opensuse"\nVERSION_ID="15.6"\n'),
    "on Arch": _system("ID=arch\n"),
    "on an unknown system": lambda one: _lacking(one, r"/etc/os-release|/usr/lib/os-release"),
    "without a GPU": lambda one: replace(
        one, listings={**one.listings, BUS: ()}, nvml={**one.nvml, "gpus": []} if one.nvml else None
    ),
    "with an H100": lambda one: replace(
        one,
        files={path: "0x2330\n" if re.match(rf"{BUS}/.*/device$", path) else text for path, text in one.files.items()},
    ),
    "without its driver loaded": lambda one: replace(
        _files(_lacking(one, r"/proc/driver/nvidia|/sys/module/nvidia"), **{"/proc/modules": ""}), nvml=None
    ),
    "with the proprietary module": lambda one: replace(
        one,
        files={
            path: text.replace("Open Kernel Module for x86_64", "x86_64 Kernel Module")
            for path, text in one.files.items()
        },
    ),
    "with its packages gone": lambda one: replace(
        _lacking(one, r"/var/lib/(?:dpkg/status|pacman/)|/var/db/xbps"), rpms=()
    ),
    "of an unknown kernel": lambda one: _lacking(one, r"/proc/sys/kernel/osrelease|/proc/version$"),
    "with no kernel's folder read": lambda one: _lacking(one, r"/lib/modules|/boot"),
    "with an older kernel that runs": lambda one: _files(one, **{"/proc/sys/kernel/osrelease": "5.4.0-10-generic\n"}),
}
"""What is done to the evidence of a host: one thing each."""


@cache
def _hosts() -> dict[str, Any]:
    """What makes the evidence of each host of the goldens, by its name there."""
    makers: dict[str, Any] = {}
    for file in ("host-threads", "host-messages", "near-hosts", "container-threads"):
        for name, case in named(file, test_host_threads._hosts(file)):
            makers[name] = lambda root, case=case: test_host_threads.evidence_of(root, case)
    for name, thread in named("kernel-threads", test_kernel_threads.THREADS):
        makers[name] = lambda root, thread=thread: gather(test_kernel_threads.tree(root, thread))
    for name, case in test_pasted.NAMED:
        makers[name] = lambda _, case=case: read_pasted(case["text"], load_matrix())
    for name in test_fixtures.NAMES:
        folder = test_fixtures.FIXTURES / name
        is_record = (folder / RECORD).is_file()
        makers[f"fixtures: {name}"] = lambda _, place=folder, read=is_record: (
            read_record(place) if read else gather(place / "root")
        )
    for identity, (files, rest, _) in test_problems.CASES.items():
        makers[f"problems: {identity}"] = lambda _, files=files, rest=rest: test_problems.evidence_of(files, **rest)
    return makers


def _held() -> dict[tuple[str, str], list[str]]:
    """The golden's lines by finding and host."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in PLACE.read_text(encoding="utf-8").splitlines() if PLACE.is_file() else ():
        if line.startswith("["):
            identity, host = line.removeprefix("[").split("] ", 1)
            found[identity, host] = []
        elif line:
            found[identity, host].append(line)
    return found


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def _told(identity: str, evidence: Evidence, matrix: Matrix) -> list[str]:
    """What the detector says, each finding in one line."""
    return [
        f"{one.message} | {one.fix}".replace("\n", " ")
        for one in DETECTORS[identity](build_scene(replace(evidence, date="2026-11-21"), matrix))
    ]


def _differences(identity: str, evidence: Evidence, matrix: Matrix) -> list[str]:
    """Of each change what the detector then says, where that is not what it says of the host as it is."""
    before = _told(identity, evidence, matrix)
    lines = []
    for name, change in CHANGES.items():
        after = _told(identity, change(evidence), matrix)
        if after != before:
            new = [one for one in after if one not in before]
            assert not re.search(r"\bNone\b|\{|\}", " ".join(new)), new
            lines += [f"  {name}: {one}" for one in new] or [f"  {name}: {'less' if after else 'nothing'}"]
    return lines


@pytest.mark.parametrize("identity", sorted(DETECTORS))
def test_what_a_change_of_the_host_changes(
    identity: str, matrix: Matrix, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    held = _held()
    hosts = [host for one, host in held if one == identity]
    is_update = request.config.getoption("--update-golden")
    if is_update:
        speaks = [host for host, of in ids().items() if identity in of.split() and host in _hosts()]
        hosts = [*dict.fromkeys([*(host for host in hosts if host in speaks), *speaks])][:MOST]
        held = {key: lines for key, lines in held.items() if key[0] != identity}
    for number, host in enumerate(hosts):
        lines = _differences(identity, _hosts()[host](tmp_path / str(number)), matrix)
        if is_update:
            held[identity, host] = lines
        else:
            assert lines == held[identity, host], (identity, host)
    if is_update:
        blocks = ("\n".join((f"[{one}] {host}", *lines)) for (one, host), lines in sorted(held.items()))
        PLACE.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")


def test_the_goldens_hold_hosts_that_are_tested_and_the_texts_that_they_are_told() -> None:
    assert marks().keys() <= _hosts().keys()
    told = {one for of in marks().values() for one in of.split()}
    assert told == texts().keys()
    assert [one for one, words in texts().items() if mark(one.partition(":")[0], words) != one] == []
