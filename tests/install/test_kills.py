"""SIGKILL at every step boundary and in the middle of each kind of step: it goes on to the same end, or all the way back."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from tests.install.layers import Layer, packages
from tests.install.world import KEYS, World
from tests.tiers import tiers

from gpustack.plan.document import digest_of

KILLED = -signal.SIGKILL


def assert_undisturbed(world: World, made: Layer) -> None:
    changes, there = world.undisturbed
    assert made.changes() == changes
    assert packages(made.root) == there


def assert_nothing_left(world: World, made: Layer) -> None:
    assert made.changes() == {}
    assert packages(made.root) == world.before


def resume(world: World, made: Layer) -> None:
    """To the end, and then all the way back."""
    done = world.call(made.root.path, "--resume", "--yes")
    assert done.code == 0, done.err
    assert_undisturbed(world, made)
    rollback(world, made)


def rollback(world: World, made: Layer) -> None:
    done = world.call(made.root.path, "--rollback", "--yes")
    assert done.code == 0, done.err
    assert_nothing_left(world, made)


MOMENTS = {name: name for name in ("after start", "torn end", "before end", "after end")}
"""In every run: nothing of the step is done, and all of it with half of its record: other two meet the same files."""
TAKEN_BACK = ("edit", "archive", "key", "remove", "install", "settings", "service", "unpack", "link", "build")
"""In every run: one step of each way to undo; what the others do is undone in the same ways, or in none."""
FAILED = {name: name for name in ("edit", "key", "index", "remove", "install", "hold", "unpack", "link", "build")}
"""In every run: packages, files of an archive, and files that a command copied: what is killed in them is above."""


@pytest.mark.parametrize("moment", tiers(MOMENTS, "after start", "torn end"))
def test_a_run_that_dies_in_every_step_ends_as_one_that_nothing_disturbs(
    world: World, tmp_path: Path, moment: str
) -> None:
    plan = world.save(tmp_path)
    with world.fresh(tmp_path / "layer") as made:
        for number, key in enumerate(KEYS):
            task = [plan] if number == 0 else ["--resume"]
            assert world.call(made.root.path, *task, "--yes", DIE_AT=f"{moment} {key}").code == KILLED, key
        resume(world, made)


@pytest.mark.parametrize("key", tiers({name: name for name in KEYS}, *TAKEN_BACK))
def test_what_a_killed_step_did_is_taken_back(world: World, tmp_path: Path, key: str) -> None:
    with world.fresh(tmp_path / "layer") as made:
        killed = world.call(made.root.path, world.save(tmp_path), "--yes", DIE_AT=f"before end {key}")
        assert killed.code == KILLED
        rollback(world, made)


@pytest.mark.parametrize("key", tiers(FAILED, "install", "unpack", "build"))
def test_what_a_failed_step_did_is_taken_back(world: World, tmp_path: Path, key: str) -> None:
    steps = tuple(
        replace(one, commands=(*one.commands, ("false",)), actions=UNSET) if one.id.startswith(f"{key}-") else one
        for one in world.plan.steps
    )
    plan = replace(world.plan, steps=steps, digest="")
    with world.fresh(tmp_path / "layer") as made:
        failed = world.call(made.root.path, world.save(tmp_path, replace(plan, digest=digest_of(plan))), "--yes")
        assert failed.code == 1, failed.err
        assert "`false`: it ended with 1" in failed.err
        rollback(world, made)


def test_a_rollback_that_dies_in_every_step_ends_as_one_that_nothing_disturbs(world: World, tmp_path: Path) -> None:
    with world.fresh(tmp_path / "layer") as made:
        assert world.call(made.root.path, world.save(tmp_path), "--yes").code == 0
        for number, key in enumerate(reversed(KEYS)):
            moment = ("before", "torn", "after")[number % 3]
            assert world.call(made.root.path, "--rollback", "--yes", DIE_AT=f"{moment} undone {key}").code == KILLED, (
                key
            )
        rollback(world, made)


CALLS = {
    "file write": "call os.rename /etc/gp.conf",
    "second file of a step": "call os.rename /etc/gp.d/more.conf",
    "download put in its place": "call os.rename /var/cache/gpustack/gp/gp.tar.gz",
}


@pytest.mark.parametrize("point", tiers(CALLS, "file write", "download put in its place"))
def test_a_file_is_there_whole_or_not_at_all(world: World, tmp_path: Path, point: str) -> None:
    plan = world.save(tmp_path)
    for ending in (resume, rollback):
        with world.fresh(tmp_path / ending.__name__) as made:
            _, call, path = point.split(" ")
            killed = world.call(made.root.path, plan, "--yes", DIE_AT=f"call {call} {made.root.inside(path)}")
            assert killed.code == KILLED
            ending(world, made)


STALLS = {"unpacks": "unpack", "configures": "configure", "removes": "remove", "has removed": "removed"}
"""What dpkg does when it is killed, and the script of a package that waits there."""


@pytest.mark.parametrize("stall", tiers(STALLS, "unpacks", "has removed"))
def test_a_package_manager_that_is_killed_with_us(world: World, tmp_path: Path, stall: str) -> None:
    plan = world.save(tmp_path)
    for ending in (resume, rollback):
        with world.fresh(tmp_path / ending.__name__) as made:
            made.root.write(f"/srv/stall-{stall}", "")
            process = world.start(made.root.path, plan, "--yes")
            wait_for(made.root.inside("/srv/stalled").exists)
            kill(process, with_children=True)
            for name in (f"stall-{stall}", "stalled"):
                made.root.inside(f"/srv/{name}").unlink()
            ending(world, made)


def test_a_package_manager_that_outlives_us_is_waited_for(world: World, tmp_path: Path) -> None:
    plan = world.save(tmp_path)
    for ending in ("--resume", "--rollback"):
        with world.fresh(tmp_path / ending) as made:
            stall = made.root.inside("/srv/stall-configure")
            stall.touch()
            process = world.start(made.root.path, plan, "--yes")
            wait_for(made.root.inside("/srv/stalled").exists)
            kill(process, with_children=False)
            refused = world.call(made.root.path, ending, "--yes", "--wait", "0.3")
            assert refused.code == 1
            assert "still runs as process" in refused.err
            again = world.start(made.root.path, ending, "--yes")
            assert again.stderr is not None
            assert "waiting for" in again.stderr.readline()
            stall.unlink()
            told = again.communicate(timeout=120)[1]
            assert again.returncode == 0, told
            made.root.inside("/srv/stalled").unlink()
            if ending == "--resume":
                assert_undisturbed(world, made)
            else:
                assert_nothing_left(world, made)


def test_a_download_goes_on_where_it_was_killed(world: World, tmp_path: Path) -> None:
    plan = world.save(tmp_path)
    with world.fresh(tmp_path / "layer") as made:
        world.files.halfway.clear()
        world.files.faults = ["stall", "stall"]
        process = world.start(made.root.path, plan, "--yes", GPUSTACK_CACHE=str(tmp_path / "cache"))
        assert world.files.halfway.wait(60)
        kill(process, with_children=True)
        world.files.faults = []
        assert made.changes() == {}
        done = world.call(made.root.path, plan, "--yes", GPUSTACK_CACHE=str(tmp_path / "cache"))
        assert done.code == 0, done.err
        assert_undisturbed(world, made)


def test_an_archive_that_was_unpacked_in_part(world: World, tmp_path: Path) -> None:
    plan = world.save(tmp_path)
    for ending in (resume, rollback):
        with world.fresh(tmp_path / ending.__name__) as made:
            process = world.start(made.root.path, plan, "--yes")
            wait_for(made.root.inside("/usr/local/gp-1.0/many/0100").exists)
            kill(process, with_children=True)
            assert not made.root.inside("/opt/gp/many").exists()
            ending(world, made)


def wait_for(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.0005)


def kill(process: subprocess.Popen[str], *, with_children: bool) -> None:
    """End it; its children are stopped first and end after it, so that it does not see them die."""
    children: list[int] = []
    while with_children and (fresh := [one for one in children_of(process.pid) if one not in children]):
        children += fresh
        send(signal.SIGSTOP, fresh)
    process.kill()
    process.communicate()
    send(signal.SIGKILL, children)
    wait_for(lambda: not {child for child, _ in running()} & set(children))


def children_of(process: int) -> list[int]:
    parents = dict(running())
    found = [process]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def send(number: int, processes: Iterable[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def running() -> Iterable[tuple[int, int]]:
    """Every process that is not yet dead, and its parent."""
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in {"Z", "X"}:
            yield int(place.parent.name), int(fields[1])
