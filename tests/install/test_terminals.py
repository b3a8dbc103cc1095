"""A terminal that is closed, a reader who leaves, a signal at any moment: what runs is ended and recorded, or goes on to
its end; nothing is forgotten, and the exit code tells what was done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.by_hand import draft
from tests.install.layers import Layer
from tests.install.test_faults import records
from tests.install.test_kills import assert_nothing_left, assert_undisturbed, resume, rollback, running, wait_for
from tests.install.world import World, make_plan
from tests.tiers import tiers

step = partial(draft, component="", why="the test asks for it", phase="driver")
BUFFERS = {"buffered": {}, "unbuffered": {"PYTHONUNBUFFERED": "1"}}
pytestmark = pytest.mark.usefixtures("heeded_interrupts")


def start(
    world: World,
    made: Layer,
    *words: str,
    err: int,
    front: tuple[str, ...] = (),
    stdin: int = subprocess.DEVNULL,
    **more: str,
) -> subprocess.Popen[bytes]:
    """``gpustack install``, which tells what it does to the descriptor ``err``, started by ``front``."""
    command = [*front, sys.executable, "-m", "gpustack", "install", *words, "--yes", "--root", str(made.root.path)]
    return subprocess.Popen(command, stdin=stdin, stdout=err, stderr=err, env=world.environment(**more))


def sessions(made: Layer) -> set[int]:
    """The sessions of all commands that were recorded."""
    return {one["pid"] for one in records(made) if one["event"] == "command" and isinstance(one["pid"], int)}


def assert_none_runs(made: Layer) -> None:
    alive = {process for process, _ in running()}
    assert not {one for one in alive if session_of(one) in sessions(made)}
    assert not made.root.inside("/usr/sbin/policy-rc.d").exists()


def session_of(process: int) -> int:
    try:
        return os.getsid(process)
    except ProcessLookupError:
        return 0


def unstall(made: Layer, name: str = "configure") -> None:
    for one in (f"stall-{name}", "stalled"):
        made.root.inside(f"/srv/{one}").unlink(missing_ok=True)


def gone() -> int:
    """The writing end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize("ending", tiers({"resume": resume, "rollback": rollback}, "rollback"))
def test_a_terminal_of_ours_that_is_closed_in_a_step(
    world: World, tmp_path: Path, ending: Callable[[World, Layer], None]
) -> None:
    """The kernel sends SIGHUP, and every line that is printed from then on fails."""
    with world.fresh(tmp_path / "layer") as made:
        made.root.write("/srv/stall-configure", "")
        outer, inner = os.openpty()
        front = ("setsid", "--ctty")
        process = start(world, made, world.save(tmp_path), err=inner, front=front, stdin=inner, TERM="xterm")
        os.close(inner)
        wait_for(made.root.inside("/srv/stalled").exists)
        os.close(outer)
        assert process.wait(timeout=120) == 128 + signal.SIGHUP
        last = records(made)[-1]
        assert (last["event"], last["outcome"], last["reason"]) == ("end", "interrupted", "interrupted by SIGHUP")
        assert_none_runs(made)
        unstall(made)
        ending(world, made)


@pytest.mark.parametrize("front", [("setsid", "--ctty"), ("setsid",)], ids=["of ours", "of another"])
def test_a_build_never_goes_on_by_itself(world: World, tmp_path: Path, front: tuple[str, ...]) -> None:
    """It is ended with its compilers, or gpustack stays with it to its end."""
    one = "while [ ! -e /srv/go ]; do touch /srv/built; sleep 0.02; done"
    plan = make_plan([step("build", kind="run", title="build", commands=(("sh", "-c", f"({one}) & ({one}) & wait"),))])
    with world.fresh(tmp_path / "layer") as made:
        outer, inner = os.openpty()
        stdin = inner if "--ctty" in front else subprocess.DEVNULL
        process = start(
            world, made, world.save(tmp_path, plan), "-v", err=inner, front=front, stdin=stdin, TERM="xterm"
        )
        os.close(inner)
        wait_for(made.root.inside("/srv/built").exists)
        assert len([one for one, _ in running() if session_of(one) in sessions(made)]) >= 3
        os.close(outer)
        if "--ctty" in front:
            assert process.wait(timeout=60) == 128 + signal.SIGHUP
        else:
            made.root.write("/srv/go", "")
            assert process.wait(timeout=60) == 0
        assert_none_runs(made)


@pytest.mark.parametrize("how", tiers({"pty": "pty", "pipe": "pipe"}, "pty"))
def test_one_that_only_shows_what_happens_ends_nothing(world: World, tmp_path: Path, how: str) -> None:
    with world.fresh(tmp_path / "layer") as made:
        made.root.write("/srv/stall-configure", "")
        outer, inner = os.openpty() if how == "pty" else os.pipe()
        process = start(world, made, world.save(tmp_path), "-v", err=inner, front=("setsid",), TERM="xterm")
        os.close(inner)
        wait_for(made.root.inside("/srv/stalled").exists)
        os.close(outer)
        unstall(made)
        assert process.wait(timeout=120) == 0
        assert [one["event"] for one in records(made)][-1] == "finished"
        unstall(made)
        assert_undisturbed(world, made)
        rollback(world, made)


@pytest.mark.parametrize("unbuffered", tiers(BUFFERS, "buffered"))
def test_without_a_reader_all_is_done_and_taken_back(world: World, tmp_path: Path, unbuffered: dict[str, str]) -> None:
    err = gone()
    try:
        with world.fresh(tmp_path / "layer") as made:
            done = start(world, made, world.save(tmp_path), err=err, **unbuffered)
            assert done.wait(timeout=120) == 0
            assert_undisturbed(world, made)
            back = start(world, made, "--rollback", err=err, **unbuffered)
            assert back.wait(timeout=120) == 0
            assert_nothing_left(world, made)
    finally:
        os.close(err)


@pytest.mark.parametrize("unbuffered", BUFFERS.values(), ids=BUFFERS)
def test_without_a_reader_a_failure_is_a_failure(world: World, tmp_path: Path, unbuffered: dict[str, str]) -> None:
    plan = make_plan([step("wrong", kind="run", title="fail", commands=(("false",),))])
    err = gone()
    try:
        with world.fresh(tmp_path / "layer") as made:
            assert start(world, made, world.save(tmp_path, plan), err=err, **unbuffered).wait(timeout=120) == 1
            assert start(world, made, "--resume", err=err, **unbuffered).wait(timeout=120) == 1
            assert start(world, made, "nothing.json", err=err, **unbuffered).wait(timeout=120) == 2
    finally:
        os.close(err)


@pytest.mark.parametrize("closed", tiers({"errors": "2>&-", "all": "<&- >&- 2>&-"}, "all"))
def test_streams_that_are_closed_from_the_beginning(world: World, tmp_path: Path, closed: str) -> None:
    """No file of ours takes their place: what a library says to standard error is in none of them."""
    with world.fresh(tmp_path / "layer") as made:
        for words in ([world.save(tmp_path)], ["--rollback"]):
            command = [sys.executable, "-m", "gpustack", "install", *words, "--yes", "--root", str(made.root.path)]
            done = subprocess.run(
                ["sh", "-c", f'exec "$@" {closed}', "sh", *command], env=world.environment(), check=False
            )
            assert done.returncode == 0
            assert_undisturbed(world, made) if words != ["--rollback"] else assert_nothing_left(world, made)


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
IN_STEPS = [*((number, "configure") for number in ENDING), (signal.SIGQUIT, "remove"), (signal.SIGHUP, "unpack")]
ALWAYS = ("SIGTERM configure", "SIGQUIT remove", "SIGHUP unpack")
"""A signal that programs know, one that would write a core file, one of a terminal; each in another moment of dpkg."""


@pytest.mark.parametrize(
    ("number", "stall"), tiers({f"{number.name} {stall}": (number, stall) for number, stall in IN_STEPS}, *ALWAYS)
)
def test_a_signal_in_a_step(world: World, tmp_path: Path, stall: str, number: signal.Signals) -> None:
    with world.fresh(tmp_path / "layer") as made:
        made.root.write(f"/srv/stall-{stall}", "")
        process = world.start(made.root.path, world.save(tmp_path), "--yes")
        wait_for(made.root.inside("/srv/stalled").exists)
        process.send_signal(number)
        told = process.communicate(timeout=120)[1]
        assert process.returncode == 128 + number, told
        assert f"error[interrupted]: interrupted by {number.name}\nhint: `gpustack install --resume`" in told
        last = records(made)[-1]
        assert (last["event"], last["outcome"]) == ("end", "interrupted")
        assert_none_runs(made)
        unstall(made, stall)
        resume(world, made)


def test_a_command_that_does_not_heed_it_is_ended_with_what_it_started(world: World, tmp_path: Path) -> None:
    """The shell ends at once; what it left behind is waited for, here for as long as it wants."""
    script = "(trap '' TERM; touch /srv/ready; while [ ! -e /srv/go ]; do sleep 0.05; done; echo > /srv/late) & wait"
    plan = make_plan([step("stubborn", kind="run", title="wait", commands=(("sh", "-c", script),))])
    with world.fresh(tmp_path / "layer") as made:
        process = world.start(made.root.path, world.save(tmp_path, plan), "--yes")
        wait_for(made.root.inside("/srv/ready").exists)
        process.send_signal(signal.SIGTERM)
        leader = next(iter(sessions(made)))
        wait_for(lambda: leader not in dict(running()))
        assert process.poll() is None
        made.root.write("/srv/go", "")
        told = process.communicate(timeout=120)[1]
        assert process.returncode == 143, told
        assert made.root.inside("/srv/late").exists()
        assert_none_runs(made)


@pytest.mark.parametrize("number", [signal.SIGPIPE, signal.SIGCHLD], ids=lambda one: one.name)
def test_what_asks_nobody_to_end_ends_nothing(world: World, tmp_path: Path, number: signal.Signals) -> None:
    with world.fresh(tmp_path / "layer") as made:
        made.root.write("/srv/stall-configure", "")
        process = world.start(made.root.path, world.save(tmp_path), "--yes")
        wait_for(made.root.inside("/srv/stalled").exists)
        process.send_signal(number)
        unstall(made)
        told = process.communicate(timeout=120)[1]
        assert process.returncode == 0, told
        unstall(made)
        assert_undisturbed(world, made)


def test_what_nohup_wants_ignored_is_ignored(world: World, tmp_path: Path) -> None:
    with world.fresh(tmp_path / "layer") as made:
        made.root.write("/srv/stall-configure", "")
        err = gone()
        process = start(world, made, world.save(tmp_path), err=err, front=("nohup",))
        os.close(err)
        wait_for(made.root.inside("/srv/stalled").exists)
        process.send_signal(signal.SIGHUP)
        unstall(made)
        assert process.wait(timeout=120) == 0
        unstall(made)
        assert_undisturbed(world, made)


EARLY = """
import os, signal, sys
number, moment = int(sys.argv[1]), sys.argv[2]
def hook(event, arguments):
    if event == "import" and arguments[0] == moment:
        os.kill(os.getpid(), number)
sys.addaudithook(hook)
sys.argv[1:] = sys.argv[3:]
from gpustack.__main__ import program
program()
"""
MOMENTS = ("gpustack.cli.reader", "gpustack.plan.document", "gpustack.detect.api", "gpustack.install.api")
"""Modules that are imported as the command line, the plan and the host are read, and before the first record."""


EARLIEST = [
    *((number, "gpustack.cli") for number in ENDING),
    *((number, moment) for number in (signal.SIGTERM, signal.SIGQUIT) for moment in MOMENTS),
]


@pytest.mark.parametrize(
    ("number", "moment"),
    tiers(
        {f"{number.name} {moment}": (number, moment) for number, moment in EARLIEST},
        *(f"{number.name} gpustack.cli" for number in ENDING),
        *(f"SIGTERM {moment}" for moment in MOMENTS),
    ),
)
def test_a_signal_before_anything_was_done(world: World, tmp_path: Path, moment: str, number: signal.Signals) -> None:
    with world.fresh(tmp_path / "layer") as made:
        words = ["install", world.save(tmp_path), "--yes", "--root", str(made.root.path)]
        command = [sys.executable, "-c", EARLY, str(number.value), moment, *words]
        done = subprocess.run(
            command, env=world.environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
        assert (done.returncode, done.stderr) == (128 + number, f"interrupted by {number.name}\n")
        assert made.changes() == {}
