"""Checks that run things: beside each other, in folders that go, within limits, with nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpustack.matrix.index import Matrix
from gpustack.model.host import Host
from gpustack.model.results import CheckResult
from gpustack.system.run import Finished, LocalRunner
from gpustack.verify.declare import Check, Context, Note, Outcome, Shared, failed, passed, silent
from gpustack.verify.frame import runner, schedule
from gpustack.verify.frame.commands import evidence_of, tail


@pytest.fixture
def context(matrix: Matrix, healthy: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return Context(host=healthy, matrix=matrix, runner=LocalRunner())


def made(identity: str, function: Any, **fields: Any) -> Check:
    return Check(
        id=identity, component="a", level="smoke", title=identity, expects="it holds", fix="mend it",
        function=function, **fields,
    )  # fmt: skip


def run(context: Context, *checks: Check, workers: int = 4, note: Note = silent) -> dict[str, CheckResult]:
    answer = runner._Answer(context, runner._Required(frozenset(), frozenset()))
    ordered = runner._in_order(list(checks))
    done: dict[str, CheckResult] = {}
    runner._in_folders(ordered, answer, {}, workers, note, done)
    return {one.id: done[one.id] for one in ordered}


def test_a_command_starts_in_the_checks_folder_and_leaves_nothing(context: Context, tmp_path: Path) -> None:
    def writes(own: Context) -> Outcome:
        end = own.run("sh", "-c", "echo hello > file; pwd; echo $TMPDIR; echo $CUDA_CACHE_PATH")
        assert (own.folder / "file").read_text() == "hello\n"
        return passed(end.out)

    result = run(context, made("a.one", writes))["a.one"]
    folder, temporary, kernels = result.detail.split()
    assert folder == temporary
    assert kernels == f"{folder}/kernels"
    assert Path(folder).name == "a.one"
    assert list(tmp_path.iterdir()) == []


def test_checks_run_beside_each_other(context: Context) -> None:
    meet = threading.Barrier(3, timeout=300)

    def waits(_: Context) -> Outcome:
        meet.wait()
        return passed()

    results = run(context, *(made(f"a.{number}", waits) for number in range(3)), workers=3)
    assert {one.status for one in results.values()} == {"pass"}


def test_no_more_run_than_there_is_room_for_and_a_measurement_runs_alone(context: Context) -> None:
    running: list[str] = []
    most: list[int] = []
    beside: dict[str, int] = {}

    def note(event: str, identity: str) -> None:
        if event == "starts":
            running.append(identity)
            most.append(len(running))
            for one in running:
                beside[one] = max(beside.get(one, 0), len(running))
        else:
            running.remove(identity)

    checks = [made(f"a.{n}", lambda own: passed(own.run("sleep", "0.05").error), alone=n == 2) for n in range(6)]
    results = run(context, *checks, workers=2, note=note)
    assert {one.status for one in results.values()} == {"pass"}
    assert max(most) == 2
    assert beside["a.2"] == 1


def test_a_check_waits_for_what_it_needs_and_is_a_skip_when_that_failed(context: Context) -> None:
    order: list[str] = []

    def first(own: Context) -> Outcome:
        own.run("sleep", "0.1")
        order.append("first")
        return failed("broken", "mend")

    def last(_: Context) -> Outcome:
        order.append("last")
        return passed()

    results = run(
        context, made("a.second", last, needs=("a.first",)), made("a.first", first), made("a.third", last), workers=3
    )
    assert (results["a.second"].status, results["a.second"].reason) == ("skip", "requires a.first, which failed")
    assert order == ["last", "first"]
    assert list(results) == ["a.first", "a.second", "a.third"]


@pytest.mark.gate
def test_a_command_is_ended_at_the_limit_with_its_whole_group(context: Context, tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    def hangs(own: Context) -> Outcome:
        # The grandchild keeps the pipe open and would live on; it writes its number where the test finds it.
        end = own.run("sh", "-c", f"(sh -c 'echo $$ > {mark}; exec sleep 300') & wait", timeout=300)
        return failed(end.error)

    result = run(context, made("a.one", hangs, limit_s=4.0))["a.one"]
    assert result.status == "fail"
    assert result.reason.startswith("no answer within ")
    assert _is_gone(int(mark.read_text()))


def test_what_a_command_leaves_running_is_ended_with_it(context: Context, tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    def leaves(own: Context) -> Outcome:
        script = f"sh -c 'echo $$ > {mark}.new; mv {mark}.new {mark}; exec sleep 300' >/dev/null 2>&1 &"
        own.run("sh", "-c", f"{script} while [ ! -e {mark} ]; do :; done")
        return passed()

    assert run(context, made("a.one", leaves))["a.one"].status == "pass"
    assert _is_gone(int(mark.read_text()))


def _is_gone(process: int) -> bool:
    """Whether a process ends; a loaded machine takes a moment to carry out a kill."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
        except OSError:
            return True
        # It may wait to be collected by its parent.
        if state in {"Z", "X"}:
            return True
        time.sleep(0.01)
    return False


def test_a_check_that_never_comes_back_is_given_up(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_GRACE_S", 0.1)
    held = threading.Event()

    def stuck(_: Context) -> Outcome:
        held.wait(60)
        return passed()

    checks = made("a.stuck", stuck, limit_s=0.1), made("a.after", lambda _: passed(), needs=("a.stuck",))
    try:
        results = run(context, *checks)
    finally:
        held.set()
    assert results["a.stuck"].status == "error"
    assert results["a.stuck"].reason == "the check did not return within 0 s and was abandoned"
    assert results["a.after"].reason == "requires a.stuck, which could not run"


def test_a_fault_outside_a_check_ends_the_run_at_once() -> None:
    """It is no check's result; what waits for it must neither wait for the check's whole time nor call it passed."""

    def broken(one: Check, _: dict[str, CheckResult]) -> CheckResult:
        raise LookupError(one.id)

    def lost(one: Check, _: float) -> CheckResult:
        raise AssertionError(one.id)

    checks = [made("a.one", lambda _: passed(), limit_s=3600)]
    with pytest.raises(LookupError, match=r"a\.one"):
        schedule.run_side_by_side(checks, broken, lost, 2, silent, {})


def test_an_interrupt_ends_the_commands_removes_the_folders_and_tells_what_was_found(tmp_path: Path) -> None:
    """A signal while a check's command runs: its exit code, no process and no file left, and the reports of what is known."""
    mark = tmp_path / "mark"
    checks = tmp_path / "checks.toml"
    script = f"echo $$ > {mark}.new; mv {mark}.new {mark}; exec sleep 300"
    checks.write_text(
        '[[check]]\nid = "site.done"\nhint = "x"\ncommand = ["true"]\n'
        f'[[check]]\nid = "site.slow"\nhint = "wait"\nneeds = ["site.done"]\ncommand = ["sh", "-c", "{script}"]\n'
        '[[check]]\nid = "site.after"\nhint = "x"\nneeds = ["site.slow"]\ncommand = ["true"]\n'
    )
    folder = tmp_path / "temporary"
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path), "TMPDIR": str(folder)}
    command = [sys.executable, "-m", "gpustack", "verify", "site", "--level", "smoke", "--checks", str(checks)]
    command += ["--output", str(tmp_path / "report.json"), "--format", "json", "--format", "tap"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not mark.exists():
        assert process.poll() is None, process.communicate()
    process.terminate()
    out, err = process.communicate(timeout=300)
    said = err.splitlines()  # the line between them says what is not proven, with a GPU or without
    assert (process.returncode, said[0], said[-1]) == (
        143,
        b"3 checks: 1 passed, 2 could not run",
        b"interrupted by SIGTERM",
    )
    assert _is_gone(int(mark.read_text()))
    assert list(folder.iterdir()) == []
    told = {
        one["id"]: (one["status"], one["reason"], one["fix"])
        for one in json.loads((tmp_path / "report.json").read_text())["checks"]
    }
    assert told == {
        "site.done": ("pass", "", ""),
        "site.slow": ("error", "interrupted before this check ended", "run the verification again"),
        "site.after": ("error", "interrupted before this check ended", "run the verification again"),
    }
    assert out.decode().splitlines()[:3] == ["TAP version 14", "1..3", "ok 1 - site.done true"]


def test_an_answer_is_worked_out_once_for_all_that_ask(context: Context) -> None:
    asked: list[int] = []

    def asks(own: Context) -> Outcome:
        return passed(own.shared.once("answer", lambda: asked.append(1) or own.run("echo", "42").out.strip()))

    results = run(context, *(made(f"a.{number}", asks) for number in range(4)))
    assert {one.detail for one in results.values()} == {"42"}
    assert asked == [1]


def test_a_failure_to_work_it_out_is_not_kept() -> None:
    shared = Shared()

    def breaks() -> str:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 (any)
        shared.once("name", breaks)
    assert shared.once("name", lambda: "there") == "there"


@pytest.fixture
def meminfo(tmp_path: Path) -> Iterator[Path]:
    return tmp_path / "meminfo"


@pytest.mark.parametrize(("text", "most"), [("MemAvailable: 1048576 kB\n", 1), ("MemAvailable: 100 kB\n", 1), ("", 64)])
def test_room_is_what_processors_and_memory_allow(meminfo: Path, text: str, most: int) -> None:
    meminfo.write_text(text)
    assert 1 <= schedule.room(meminfo) <= min(most, os.cpu_count() or 1)


def test_evidence_tells_the_command_its_end_and_its_last_words() -> None:
    end = Finished(argv=("nvcc", "-o", "/run/x y/program"), code=2, out="line\n" * 100, err="error in /run/x y/a.cu\n")
    (name, text), *_ = evidence_of(end, work=Path("/run/x y")).items()
    assert name == "nvcc -o '$WORK/program'"
    lines = text.splitlines()
    assert (lines[0], lines[-2], lines[-1]) == ("[...]", "error in $WORK/a.cu", "[exit code 2]")
    assert len(lines) == 42
    assert evidence_of(Finished(argv=("x",), code=None, error="x is not installed")) == {"x": "[x is not installed]"}
    assert tail("") == ""


def test_a_saved_host_runs_nothing(matrix: Matrix, healthy: Host) -> None:
    results = runner.run_checks(("cuda",), "smoke", Context(host=healthy, matrix=matrix))
    compiled = next(one for one in results if one.id == "cuda.compile")
    assert (compiled.status, compiled.reason) == (
        "skip",
        "the host is a saved snapshot: this check runs on the machine itself only",
    )


def test_a_command_that_cannot_start_says_why(tmp_path: Path) -> None:
    local = LocalRunner()
    assert local.run(("no-such-program",)).error == "no-such-program is not installed"
    assert "cannot be started: " in local.run((str(tmp_path),)).error
    assert local.run(("sh", "-c", "echo $ONE"), env={"ONE": "1"}, cwd=tmp_path).out == "1\n"
