"""A rollback that fails, is killed or meets a lock, repeated: it ends in the state before the run, or says what is left."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from tests.by_hand import draft
from tests.install.layers import Layer, packages
from tests.install.test_faults import redigested
from tests.install.test_kills import KILLED, assert_nothing_left, kill, rollback, wait_for
from tests.install.world import Done, World, make_plan
from tests.integration import debs
from tests.integration.catalogue import Package

from gpustack.model.plan import Plan
from gpustack.model.steps import FileWrite

UNDONE = "rolled back: all changes were undone"


@contextmanager
def installed(world: World, folder: Path, plan: Plan | None = None) -> Iterator[Layer]:
    """A tree in which the plan was carried out."""
    with world.fresh(folder / "layer") as made:
        done = world.call(made.root.path, world.save(folder, plan), "--yes")
        assert done.code == 0, done.err
        yield made


def roll_back(world: World, made: Layer, *words: str) -> Done:
    return world.call(made.root.path, "--rollback", "--yes", *words)


def records(made: Layer) -> list[dict[str, object]]:
    (file,) = made.root.inside("/var/lib/gpustack/runs").glob("*/journal.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_lock_is_waited_for(world: World, tmp_path: Path) -> None:
    with installed(world, tmp_path) as made:
        with made.root.inside("/var/lib/dpkg/lock-frontend").open("w") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            process = world.start(made.root.path, "--rollback", "--yes")
            assert process.stderr is not None
            assert "which works on the packages (/var/lib/dpkg/lock-frontend)" in process.stderr.readline()
        told = process.communicate(timeout=120)[1]
        assert process.returncode == 0, told
        assert UNDONE in told, told
        assert_nothing_left(world, made)


def test_a_lock_that_is_kept_stops_it_before_anything_is_undone(world: World, tmp_path: Path) -> None:
    with installed(world, tmp_path) as made:
        before = made.changes()
        with made.root.inside("/var/lib/dpkg/lock-frontend").open("w") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            for _ in range(2):
                failed = roll_back(world, made, "--wait", "0.2")
                assert failed.code == 1, failed.err
                assert "the package database is locked by" in failed.err
        assert made.changes() == before
        rollback(world, made)


def split(plan: Plan) -> Plan:
    """The same, but gp-tool (whose script adds a user) and gp-old are installed by two steps."""
    (whole,) = (one for one in plan.steps if one.id.startswith("install-"))
    words = whole.commands[0]
    tool = replace(whole, commands=(tuple(word for word in words if not word.startswith("gp-old")),), actions=UNSET)
    old = replace(
        whole, id="install-old", title="install gp-old", done_when="never", actions=UNSET,
        commands=(tuple(word for word in words if not word.startswith("gp-tool")),),
    )  # fmt: skip
    steps = [one for step in plan.steps for one in ((tool, old) if step is whole else (step,))]
    return redigested(replace(plan, steps=tuple(steps)))


def test_a_package_of_the_user_that_needs_one_of_the_run(world: World, tmp_path: Path) -> None:
    with installed(world, tmp_path, split(world.plan)) as made:
        made.root.must("dpkg", "--install", "/srv/repository/gp-dep_1.0_amd64.deb")
        for _ in range(2):
            failed = roll_back(world, made)
            assert failed.code == 1, failed.err
            assert "gp-dep" in failed.err, failed.err
            assert "root:" in made.root.inside("/etc/passwd").read_text()
            # What brings packages stays while packages are still to come back.
            assert made.root.inside("/etc/apt/sources.list.d/gp.sources").exists()
            assert "kept, because `install gp-tool and gp-old` could not be undone" in failed.err
        # What does not depend on it is undone, and recorded as undone.
        assert made.root.inside("/etc/gp.conf").read_text() == "old = 1\n"
        assert not made.root.inside("/opt/gp/many").exists()
        made.root.must("dpkg", "--purge", "gp-dep")
        rollback(world, made)


@pytest.mark.parametrize("stall", ["unconfigure"])
@pytest.mark.parametrize("with_children", [False, True])
def test_a_rollback_that_is_killed_while_packages_go(
    world: World, tmp_path: Path, stall: str, with_children: bool
) -> None:
    with installed(world, tmp_path) as made:
        made.root.write(f"/srv/stall-{stall}", "")
        process = world.start(made.root.path, "--rollback", "--yes")
        wait_for(made.root.inside("/srv/stalled").exists)
        kill(process, with_children=with_children)
        if not with_children:
            for _ in range(2):
                failed = roll_back(world, made, "--wait", "0.2")
                assert failed.code == 1, failed.err
                assert "still runs as process" in failed.err
        made.root.inside(f"/srv/stall-{stall}").unlink()
        done = roll_back(world, made)
        assert done.code == 0, done.err
        # Written by the script until its end.
        made.root.inside("/srv/stalled").unlink()
        assert_nothing_left(world, made)


def test_what_the_user_changed_since_is_kept_whatever_the_packages_scripts_do(world: World, tmp_path: Path) -> None:
    with installed(world, tmp_path) as made:
        made.root.write("/etc/gp-tool.conf", "mine = 1\n")
        made.root.write("/etc/mine.conf", "mine = 2\n")
        made.root.must("useradd", "--system", "--no-create-home", "alice")
        done = roll_back(world, made)
        assert done.code == 1, done.err
        assert made.root.inside("/etc/gp-tool.conf").read_text() == "mine = 1\n"
        assert made.root.inside("/etc/mine.conf").read_text() == "mine = 2\n"
        assert "alice:" in made.root.inside("/etc/passwd").read_text()
        assert "/etc/gp-tool.conf" in done.err
        assert "/etc/passwd" in done.err
        assert UNDONE not in done.err
        assert packages(made.root) == world.before


def test_only_later_things_of_the_user_are_left(world: World, tmp_path: Path) -> None:
    with installed(world, tmp_path) as made:
        made.root.write("/etc/mine.conf", "mine = 2\n")
        done = roll_back(world, made)
        assert done.code == 0, done.err
        assert "/etc/mine.conf" in done.err
        assert UNDONE not in done.err
        assert set(made.changes()) == {"/etc/mine.conf"}


def test_a_policy_that_a_kill_left_is_taken_away(world: World, tmp_path: Path) -> None:
    with world.fresh(tmp_path / "layer") as made:
        plan = world.save(tmp_path)
        killed = world.call(made.root.path, plan, "--yes", DIE_AT="before start edit")
        assert killed.code == KILLED
        assert made.root.inside("/usr/sbin/policy-rc.d").exists()
        rollback(world, made)


def damaged(line: bytes, number: int) -> bytes:
    """The line with one bit flipped; where, depends on its number."""
    place = number * 7919 % len(line)
    return line[:place] + bytes([line[place] ^ (1 << number % 8)]) + line[place + 1 :]


def test_a_flipped_bit_in_any_record_stops_every_command(world: World, tmp_path: Path) -> None:
    with installed(world, tmp_path) as made:
        (file,) = made.root.inside("/var/lib/gpustack/runs").glob("*/journal.jsonl")
        whole = file.read_bytes()
        before = made.changes()
        lines = whole.splitlines(keepends=True)
        for number in (0, 1, len(lines) // 2, len(lines) - 1):
            file.write_bytes(b"".join([*lines[:number], damaged(lines[number], number), *lines[number + 1 :]]))
            for task in ("--rollback", "--resume"):
                stopped = world.call(made.root.path, task, "--yes")
                assert stopped.code == 1, stopped.err
                assert f"record {number + 1} " in stopped.err
                assert "--abandon" in stopped.err
        assert made.changes() == before
        file.write_bytes(whole)
        rollback(world, made)


def test_a_run_is_abandoned(world: World, tmp_path: Path) -> None:
    with installed(world, tmp_path) as made:
        (folder,) = made.root.inside("/var/lib/gpustack/runs").iterdir()
        (folder / "journal.jsonl").write_bytes(b"nonsense\n" + (folder / "journal.jsonl").read_bytes())
        (folder / "plan.json").unlink()
        before = made.changes()
        done = world.call(made.root.path, "--abandon", "--yes")
        assert done.code == 0, done.err
        assert made.changes() == before
        assert (folder / "journal.jsonl").exists()
        assert roll_back(world, made).code == 2
        other = make_plan(
            [
                draft(
                    "other",
                    component="",
                    kind="write-file",
                    title="write",
                    why="the test asks for it",
                    phase="driver",
                    files=(FileWrite(path="/etc/other", content="x\n"),),
                )
            ]
        )
        again = world.call(made.root.path, world.save(tmp_path, other), "--yes")
        assert again.code == 0, again.err
        rollback_of_other = roll_back(world, made)
        assert rollback_of_other.code == 0, rollback_of_other.err
        assert made.changes() == before


DRIVERS = [
    Package("gp-driver-1", "1.0", files={"/usr/lib/gp-driver": "1"}),
    Package("gp-driver-2", "2.0", conflicts="gp-driver-1", files={"/usr/lib/gp-driver": "2"}),
    Package("gp-drivers", "1.0", depends=(("gp-driver-1", "", ""),)),
    Package("gp-drivers", "2.0", depends=(("gp-driver-2", "", ""),)),
    Package("gp-mine", "1.0", depends=(("gp-driver-2", "", ""),)),
]
"""The new conflicts with the old, and what is in both needs one of them: only one command brings the old back."""


@pytest.mark.parametrize("is_needed", [False, True])
def test_packages_that_exclude_one_another(world: World, tmp_path: Path, is_needed: bool) -> None:
    step = draft("drivers", component="", kind="install-packages", title="install gp-drivers", why="the test asks for it", phase="driver", commands=(("apt-get", "install", "-y", "gp-drivers=2.0"),), packages=("gp-drivers",))  # fmt: skip
    with world.fresh(tmp_path / "layer") as made:
        debs.build_repository(made.root.inside("/srv/drivers"), DRIVERS)
        made.root.write("/etc/apt/sources.list.d/drivers.list", "deb [trusted=yes] file:/srv/drivers ./\n")
        made.root.must("apt-get", "update")
        made.root.must("apt-get", "install", "-y", "gp-drivers=1.0")
        before = made.changes(), packages(made.root)
        done = world.call(made.root.path, world.save(tmp_path, make_plan([step])), "--yes")
        assert done.code == 0, done.err
        assert "gp-driver-1:amd64" not in packages(made.root)
        if is_needed:
            made.root.must("apt-get", "install", "-y", "gp-mine")
            failed = roll_back(world, made)
            assert failed.code == 1, failed.err
            assert "not run: it would remove gp-mine" in failed.err
            assert "gp-mine:amd64" in packages(made.root)
            made.root.must("dpkg", "--purge", "gp-mine")
        assert roll_back(world, made).code == 0
        # apt wrote it again for the user; what it says is compared with the packages.
        marks = {"/var/lib/apt/extended_states": before[0]["/var/lib/apt/extended_states"]}
        assert (made.changes() | marks, packages(made.root)) == before


def test_what_somebody_put_into_a_folder_of_the_run_is_kept(world: World, tmp_path: Path) -> None:
    with installed(world, tmp_path) as made:
        made.root.write("/usr/local/gp-1.0/lib/mine.so", "mine\n")
        made.root.write("/usr/local/gp-1.0/share/two", "mine as well\n")
        made.root.write("/usr/local/gp-1.0/bin/__pycache__/gp.pyc", "compiled\n")
        for code in (1, 2):
            done = roll_back(world, made)
            assert done.code == code, done.err
        left = {path for path in made.changes() if made.root.inside(path).is_file()}
        assert left == {"/usr/local/gp-1.0/lib/mine.so", "/usr/local/gp-1.0/share/two"}
        assert made.root.inside("/usr/local/gp-1.0/share/two").read_text() == "mine as well\n"
        assert packages(made.root) == world.before
