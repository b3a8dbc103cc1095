"""The journal of services: who is asked for it, what is kept, judged and recorded, and when it is said to be unread."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gpustack.detect.build import host_of
from gpustack.detect.evidence import Evidence
from gpustack.detect.gather import gather
from gpustack.detect.record import read_record, record
from gpustack.detect.services import JOURNAL, KEPT_LINES, UNITS
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host
from gpustack.system.run import Finished

HEAD = "2026-11-20T10:00:00+0100 node7 "
REFUSED = (
    f'{HEAD}dockerd[900]: level=error msg="Handler for POST /start returned error: could not select device driver '
    '\\"\\" with capabilities: [[gpu]]"\n'
)
PULLED = f'{HEAD}dockerd[900]: level=info msg="image pulled"\n'


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


class Journald:
    """A stand-in for journalctl: answers for units with one recorded text, and keeps the argument lists."""

    def __init__(self, out: str = "", err: str = "", code: int | None = 0, error: str = "") -> None:
        self.answer = Finished(argv=(), code=code, out=out, err=err, error=error)
        self.asked: list[tuple[str, ...]] = []

    def run(
        self,
        argv: tuple[str, ...],
        *,
        timeout: float = 10.0,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Finished:
        assert timeout <= 10.0
        assert env is None
        assert cwd is None
        if not any(word.startswith("--unit=") for word in argv):
            return Finished(argv=argv, code=1)
        self.asked.append(argv)
        return self.answer


def put(root: Path, path: str, content: str = "") -> None:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content, encoding="utf-8")


def machine(root: Path, *units: str, journal: str = "var/log/journal") -> Path:
    """A host without /var/log/syslog; it keeps its logs in the journal."""
    put(root, "etc/os-release", 'ID=fedora\nVERSION_ID=43\nPLATFORM_ID="platform:f43"\n')
    for unit in units:
        put(root, f"usr/lib/systemd/system/{unit}.service")
    if journal:
        put(root, f"{journal}/0123/system.journal", "LPKSHHRH")
    return root


def told(host: Host) -> list[str]:
    return [problem.message for problem in host.problems if problem.id == "detect-service-log"]


def unseen(host: Host) -> dict[str, str]:
    assert host.looked is not None
    return {one.what: one.why for one in host.looked.not_at}


def read(root: Path, runner: Journald) -> Evidence:
    return gather(root, runner=runner)


@pytest.mark.parametrize("journal", ["var/log/journal", "run/log/journal"])
def test_a_message_in_the_journal_is_judged(journal: str, tmp_path: Path, matrix: Matrix) -> None:
    runner = Journald(PULLED + REFUSED)
    host = host_of(read(machine(tmp_path, "docker", "sshd", journal=journal), runner), matrix)
    (message,) = told(host)
    assert "(journalctl: node7 dockerd[900]: " in message
    assert host.looked is not None
    assert "journal of services" in host.looked.at
    assert f"--directory={tmp_path}/{journal}/0123" in runner.asked[0]


def test_one_call_names_the_installed_units_alone(tmp_path: Path) -> None:
    runner = Journald()
    put(tmp_path, "etc/systemd/system/ollama.service")
    evidence = read(machine(tmp_path, "docker", "sshd", "nvidia-persistenced"), runner)
    (argv,) = runner.asked
    named = [word for word in argv if word.startswith("--unit=")]
    assert named == ["--unit=docker.service", "--unit=nvidia-persistenced.service", "--unit=ollama.service"]
    assert evidence.commands[JOURNAL].out == ""


def test_a_link_out_of_the_tree_is_not_followed(tmp_path: Path) -> None:
    put(tmp_path, "outside/0123/system.journal", "LPKSHHRH")
    root = machine(tmp_path / "root", "docker", journal="")
    put(root, "var/log/lastlog")
    (root / "var/log/journal").symlink_to(tmp_path / "outside")
    runner = Journald(REFUSED)
    read(root, runner)
    assert not runner.asked


@pytest.mark.parametrize(
    ("units", "journal"), [((), "var/log/journal"), (("sshd",), "var/log/journal"), (("docker",), "")]
)
def test_nobody_is_asked_without_a_unit_and_a_journal(units: tuple[str, ...], journal: str, tmp_path: Path) -> None:
    runner = Journald(REFUSED)
    evidence = read(machine(tmp_path, *units, journal=journal), runner)
    assert not runner.asked
    assert JOURNAL not in evidence.commands


def test_messages_that_are_not_about_gpus_are_not_kept(tmp_path: Path, matrix: Matrix) -> None:
    evidence = read(machine(tmp_path, "docker"), Journald(PULLED * 50))
    assert evidence.commands[JOURNAL].out == ""
    assert not told(host_of(evidence, matrix))


def test_of_many_messages_the_last_are_kept(tmp_path: Path) -> None:
    many = "".join(f"{HEAD}ollama[7]: GPU {number}\n" for number in range(KEPT_LINES + 50))
    kept = read(machine(tmp_path, "ollama"), Journald(many)).commands[JOURNAL].out.splitlines()
    assert len(kept) == KEPT_LINES
    assert kept[-1].endswith(f"GPU {KEPT_LINES + 49}")


@pytest.mark.parametrize(
    ("runner", "why"),
    [
        (Journald(code=None, error="journalctl is not installed"), "journalctl is not installed"),
        (Journald(code=None, error="no answer within 5 s"), "no answer within 5 s"),
        (Journald(code=1, err="No journal files were opened\nmore\n"), "No journal files were opened"),
        (Journald(code=1), "journalctl ended with 1"),
    ],
    ids=["missing", "late", "refused", "silent"],
)
def test_what_could_not_be_read_is_said(runner: Journald, why: str, tmp_path: Path, matrix: Matrix) -> None:
    host = host_of(read(machine(tmp_path, "docker"), runner), matrix)
    assert unseen(host)["journal of services"] == why
    assert not told(host)


def test_a_journal_that_cannot_be_opened_is_said(tmp_path: Path, matrix: Matrix) -> None:
    """A folder in the file's place: root could open a file whatever its mode."""
    (machine(tmp_path, "docker", journal="") / "var/log/journal/0123/system.journal").mkdir(parents=True)
    runner = Journald(REFUSED)
    host = host_of(read(tmp_path, runner), matrix)
    assert not runner.asked
    assert "systemd-journal can read it" in unseen(host)["journal of services"]


def test_a_recorded_host_keeps_its_journal(tmp_path: Path, matrix: Matrix) -> None:
    evidence = read(machine(tmp_path / "host", "docker"), Journald(REFUSED))
    record(evidence, tmp_path / "record")
    back = read_record(tmp_path / "record")
    assert back is not None
    assert "node7" not in back.commands[JOURNAL].out
    (message,) = told(host_of(back, matrix))
    assert "could not select device driver" in message


def test_each_unit_is_declared_once() -> None:
    assert len(UNITS) == len(set(UNITS))
    assert not [unit for unit in UNITS if unit.endswith(".service") or "*" in unit]
