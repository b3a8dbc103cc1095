"""Waves, limits, the journal and the ways out of service."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpustack.cli.fleet_apply import Stop
from gpustack.errors import GpustackError, UsageError
from gpustack.fleet.apply import Application, Choices, only_one
from gpustack.fleet.drain import Drain, DrainError, NoDrain, drain_named
from gpustack.fleet.journal import JOURNAL, Journal
from gpustack.fleet.store import load_fleet
from gpustack.fleet.verify import faults_of
from gpustack.fleet.waves import in_turn, parse_limit, parse_waves
from gpustack.matrix.index import load_matrix
from gpustack.model.fleet import FleetPlan, HostClass
from gpustack.model.host import Host
from gpustack.model.results import CheckResult, Report
from gpustack.system.run import LocalRunner
from gpustack.system.signals import Interrupts


@pytest.mark.parametrize(
    ("text", "total", "ends"),
    [
        ("1,5%,25%,100%", 200, [1, 10, 50, 200]),
        ("1,5%,25%,100%", 3, [1, 3]),
        ("10", 25, [10, 25]),
        ("50%,10%", 10, [5, 10]),
        ("100%", 1, [1]),
    ],
)
def test_waves_end_after_so_many_hosts(text: str, total: int, ends: list[int]) -> None:
    assert parse_waves(text, total) == ends


def test_limits_are_rounded_down() -> None:
    assert [parse_limit(text, 250) for text in ("0", "1%", "3", "100%")] == [0, 2, 3, 250]


@pytest.mark.parametrize("text", ["", "x", "-1", "101%", "1,,2", "5%%"])
def test_another_word_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError):
        parse_waves(text, 10)


def test_early_waves_have_hosts_of_every_class() -> None:
    assert in_turn([("a1", "a2", "a3"), ("b1",), ("c1", "c2")]) == ["a1", "b1", "c1", "a2", "c2", "a3"]


def test_a_journal_goes_on_after_a_kill(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write("a", "drained", was_out=True)
    journal.write("a", "begun")
    journal.write("b", "done")
    with (tmp_path / JOURNAL).open("ab") as stream:
        stream.write(b'{"host": "c", "pha')
    again = Journal(tmp_path)
    assert again.is_done("b")
    assert (again.now["a"].phase, again.touched, again.was_out) == ("begun", {"a"}, {"a"})
    again.write("a", "failed", "x")
    assert Journal(tmp_path).now["a"].reason == "x"
    (tmp_path / JOURNAL).write_text("nonsense\n")
    with pytest.raises(GpustackError) as caught:
        Journal(tmp_path)
    assert caught.value.code == "journal-damaged"


def test_a_full_disk_is_named() -> None:
    journal = Journal(Path("/dev/full").parent)
    journal._path = Path("/dev/full")
    with pytest.raises(GpustackError, match="No space left on device"):
        journal.write("a", "begun")
    assert journal.now == {}


def test_two_runs_of_one_plan_exclude_each_other(tmp_path: Path) -> None:
    with only_one(tmp_path):
        code = (
            "import sys, pathlib\nfrom gpustack.fleet.apply import only_one\nfrom gpustack.errors import GpustackError\n"
            "try:\n    with only_one(pathlib.Path(sys.argv[1])): pass\n"
            "except GpustackError as exc:\n    print(exc.code, exc.message)\n"
        )
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"fleet-running another run of this plan works: process {os.getpid()} on ")
    with only_one(tmp_path):
        pass


SCONTROL = """#!/bin/sh
echo "$*" >>"$HOME/log"
case "$1" in
    update) case "$3" in State=RESUME) echo IDLE ;; *) echo "IDLE+DRAIN Reason=gpustack" ;; esac >"$HOME/state" ;;
    *) echo "NodeName=$4 State=$(cat "$HOME/state")" ;;
esac
"""
KUBECTL = """#!/bin/sh
echo "$*" >>"$HOME/log"
case "$1" in get) cat "$HOME/state" ;; drain) test "$2" != stuck || { echo "cannot evict" >&2; exit 1; } ;; esac
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {"scontrol": SCONTROL, "kubectl": KUBECTL}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def drained(word: str) -> Drain:
    return drain_named(word, LocalRunner(), lambda _: False)


def test_slurm_drains_and_resumes(site: Path) -> None:
    (site / "state").write_text("IDLE")
    way = drained("slurm")
    assert way.out("n1") is False
    way.back("n1")
    log = (site / "log").read_text()
    assert "update NodeName=n1 State=DRAIN Reason=gpustack\n" in log
    assert log.endswith("update NodeName=n1 State=RESUME\n")
    (site / "state").write_text("IDLE+DRAIN Reason=bad_disk")
    assert way.out("n1") is True, "a node that somebody else has drained"


def test_slurm_waits_for_jobs(site: Path) -> None:
    (site / "scontrol").write_text("#!/bin/sh\necho State=MIXED+DRAIN Reason=gpustack\n")
    with pytest.raises(DrainError, match="stopped while waiting for its jobs"):
        drained("slurm").out("n1")


def test_kubectl_drains_and_uncordons(site: Path) -> None:
    (site / "state").write_text("")
    way = drained("kubectl")
    assert way.out("n1") is False
    way.back("n1")
    assert (site / "log").read_text().splitlines()[1:] == [
        "drain n1 --ignore-daemonsets --delete-emptydir-data --timeout=3600s",
        "uncordon n1",
    ]
    (site / "state").write_text("true")
    assert way.out("n1") is True
    with pytest.raises(DrainError, match="kubectl drain: cannot evict"):
        way.out("stuck")


def test_a_program_gets_words_and_no_shell(site: Path) -> None:
    (site / "own").write_text('#!/bin/sh\nprintf "%s\\n" "$@" >"$HOME/log"\n')
    (site / "own").chmod(0o755)
    drained(f"{site}/own 'a b' '$(touch x)'").out("n1")
    assert (site / "log").read_text().splitlines() == ["a b", "$(touch x)", "drain", "n1"]
    with pytest.raises(DrainError, match="is not installed"):
        drained("/nowhere").out("n1")
    with pytest.raises(UsageError):
        drained("'")


def test_a_report_in_which_nothing_passed_proves_nothing() -> None:
    def report(*statuses: str) -> Report:
        checks = tuple(CheckResult(id=f"c.{one}", component="c", status=one, reason="why") for one in statuses)  # type: ignore[arg-type]
        return Report(host=Host(), checks=checks)

    assert faults_of(report("pass", "skip")) == []
    assert faults_of(report("skip")) == faults_of(report()) == ["no check passed: nothing was proven"]
    assert faults_of(report("pass", "fail", "error")) == ["c.fail: why", "c.error: why"]


def test_the_first_signal_stops_after_the_wave_and_the_second_at_once() -> None:
    said: list[str] = []
    interrupts = Interrupts()
    interrupts.catch()
    try:
        stop = Stop(interrupts, said.append)
        assert not stop.is_stopped()
        os.kill(os.getpid(), signal.SIGTERM)  # of all, the one that no shell makes programs ignore
        assert (stop.is_stopped(), stop.is_ended(), stop.first) == (True, False, signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.is_ended()
    finally:
        interrupts.release()
    assert len(said) == 1


def test_no_wave_begins_after_a_signal(tmp_path: Path) -> None:
    made = FleetPlan(classes=(HostClass(name="a", hosts=("n1", "n2"), steps=3),))
    application = Application(
        tmp_path,
        made,
        {},
        NoDrain(),
        load_matrix(),
        Choices("1,100%", "0", "quick", None, reboots=False, forks=2),
        tell=lambda _: None,
        is_stopped=lambda: True,
        is_ended=lambda: False,
    )
    found = application.run()
    assert (found.phases, found.untouched, found.is_stopped) == ({}, ("n1", "n2"), True)
    assert [one.reason for one in load_fleet(tmp_path / "reports").hosts] == ["it was not verified"] * 2
