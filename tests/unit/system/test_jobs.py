"""Long commands: none begins that nobody has noted, none is forgotten, and one that is stopped ends with all it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpustack.system.jobs import Job, born, follow, still_running


class Follower:
    """Notes what it is told, and does what a test wants of it."""

    def __init__(self, on_line: Callable[[str], None] = lambda _text: None) -> None:
        self.pid = 0
        self.born = 0
        self.number = 0
        self.lines: list[str] = []
        self.on_line = on_line

    def started(self, pid: int) -> None:
        self.pid, self.born = pid, born(pid)

    def line(self, text: str) -> None:
        self.lines.append(text)
        self.on_line(text)

    def stop(self) -> int:
        return self.number

    def left(self) -> tuple[int, ...]:
        return still_running(self.pid, self.born)


def job(tmp_path: Path, script: str, *, grace: float = 60.0, limit: float | None = None) -> Job:
    return Job(argv=("sh", "-c", script), log=tmp_path / "log", grace=grace, limit=limit)


def until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not happened():
        assert time.monotonic() < end


def test_its_lines_and_its_end(tmp_path: Path) -> None:
    follower = Follower()
    done = follow(job(tmp_path, "echo one; echo two; cat; umask; exit 3"), follower)
    assert (done.code, done.out, done.error) == (3, "one\ntwo\n0022\n", "")
    assert follower.lines == ["one", "two", "0022"]


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_the_mask_of_whoever_started_us_is_not_that_of_a_command(tmp_path: Path, mask: int) -> None:
    former = os.umask(mask)
    try:
        follow(job(tmp_path, f"mkdir {tmp_path}/made"), Follower())
    finally:
        os.umask(former)
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (("no-such-program",), "no-such-program cannot be started: No such file or directory"),
        (("/etc/passwd",), "/etc/passwd cannot be started: Permission denied"),
        (("echo", "a\0b"), "echo cannot be started: embedded null byte"),
    ],
)
def test_what_cannot_be_started(tmp_path: Path, argv: tuple[str, ...], why: str) -> None:
    done = follow(Job(argv=argv, log=tmp_path / "log"), Follower())
    assert (done.code, done.error) == (None, why)


def test_a_command_that_cannot_be_noted_never_begins(tmp_path: Path) -> None:
    class Full(Follower):
        def started(self, pid: int) -> None:
            super().started(pid)
            raise OSError(28, "No space left on device")

    follower = Full()
    with pytest.raises(OSError, match="No space left"):
        follow(job(tmp_path, f"echo > {tmp_path}/made"), follower)
    assert follower.left() == ()
    assert not (tmp_path / "made").exists()


KILLED = """
import os, pathlib, signal, sys
from gpustack.system.jobs import Job, follow
class Follower:
    def started(self, pid):
        pathlib.Path(sys.argv[1], "pid").write_text(str(pid))
        os.kill(os.getpid(), signal.SIGKILL)
follow(Job(argv=("sh", "-c", f"echo > {sys.argv[1]}/made"), log=pathlib.Path(sys.argv[1], "log")), Follower())
"""


def test_nor_one_whose_beginning_nobody_lived_to_note(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    until(lambda: not born(int((tmp_path / "pid").read_text())))
    assert not (tmp_path / "made").exists()


def test_one_whose_output_cannot_be_passed_on_is_stopped(tmp_path: Path) -> None:
    def broken(_text: str) -> None:
        raise OSError(5, "Input/output error")

    follower = Follower(broken)
    with pytest.raises(OSError, match="Input/output error"):
        follow(job(tmp_path, "echo line; sleep 1000 & wait"), follower)
    assert follower.pid
    assert follower.left() == ()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1])
def test_one_that_is_stopped_ends_with_all_it_started(tmp_path: Path, number: int) -> None:
    """The shell ends at once, what it started does not heed a request: it is killed after the grace."""
    script = "(trap '' INT TERM HUP; echo ready; while :; do sleep 0.1; done) & trap 'exit 9' INT TERM HUP; wait; wait"
    follower = Follower()

    def stop(_text: str) -> None:
        follower.number = number

    follower.on_line = stop
    done = follow(job(tmp_path, script, grace=0.3), follower)
    assert (done.code, done.error) == (None, "interrupted")
    assert follower.left() == ()


def test_one_that_takes_too_long_ends_with_a_group_of_its_own(tmp_path: Path) -> None:
    follower = Follower()
    done = follow(job(tmp_path, "set -m; sleep 1000 & sleep 1000", limit=0.3, grace=0.3), follower)
    assert done.error == "no end within 0.3 s"
    assert follower.left() == ()


def test_what_a_command_left_behind_is_found_after_its_own_end(tmp_path: Path) -> None:
    follower = Follower()
    done = follow(job(tmp_path, f"sleep 1000 & echo $! > {tmp_path}/pid"), follower)
    assert done.code == 0
    left = int((tmp_path / "pid").read_text())
    try:
        assert follower.left() == (left,)
        assert still_running(follower.pid, follower.born + 1_000_000) == ()  # born before the command was
        assert still_running(left, born(left)) == ()
    finally:
        os.kill(left, signal.SIGKILL)
    until(lambda: follower.left() == ())


def test_a_number_that_another_process_has_by_now_is_not_that_command() -> None:
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as other:
        since = born(other.pid)
        assert still_running(other.pid, since) == (other.pid,)
        assert still_running(other.pid, since - 1) == ()
        assert still_running(other.pid, 0) == ()
        other.kill()
