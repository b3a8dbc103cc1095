"""The state folder as machines have it: strange entries, no room, read-only, of somebody else, and any umask."""

from __future__ import annotations

import os
import stat
import subprocess
from functools import partial
from pathlib import Path

import pytest
from tests.by_hand import draft
from tests.install.layers import Layer, mounted
from tests.install.test_faults import remount
from tests.install.world import Done, World, make_plan
from tests.tiers import tiers

from gpustack.model.plan import Plan
from gpustack.model.steps import FileWrite

STATE = "/var/lib/gpustack"
RUNS = f"{STATE}/runs"

step = partial(draft, component="", why="the test asks for it", phase="driver")


def small_plan(number: int = 0, *more: tuple[str, ...]) -> Plan:
    """One file, and commands that the whole of /etc is kept before."""
    return make_plan(
        [
            step("file", kind="write-file", title="write", files=(FileWrite(path="/etc/gp/one", content=f"{number}\n"),)),
            step("command", kind="run", title="touch", commands=(("touch", f"/etc/gp-{number}"), *more)),
        ]
    )  # fmt: skip


def install(world: World, made: Layer, folder: Path, number: int = 0) -> Done:
    return world.call(made.root.path, world.save(folder, small_plan(number)), "--yes")


def told(done: Done) -> str:
    """What a failed call said: a sentence, and no fault of gpustack's own."""
    assert done.code == 1, done.err
    assert "internal fault" not in done.err
    return done.err


def test_entries_that_are_no_runs(world: World, tmp_path: Path) -> None:
    with world.fresh(tmp_path / "layer") as made:
        runs = made.root.inside(RUNS)
        for name in ("lost+found", ".snapshot", "7", "x-1"):
            (runs / name).mkdir(parents=True)
        (runs / "notes.txt").write_text("do not touch\n")
        for number in (1, 2):
            done = install(world, made, tmp_path, number)
            assert done.code == 0, done.err
        back = world.call(made.root.path, "--rollback", "--yes")
        assert back.code == 0, back.err
        assert not made.root.inside("/etc/gp-2").exists()
        assert made.root.inside("/etc/gp-1").exists()
        assert (runs / "notes.txt").read_text() == "do not touch\n"


@pytest.mark.parametrize("words", [(), ("--resume",), ("--rollback",)], ids=["install", "resume", "rollback"])
def test_a_read_only_file_system_with_an_earlier_run(world: World, tmp_path: Path, words: tuple[str, ...]) -> None:
    with world.fresh(tmp_path / "layer") as made:
        failed = world.call(made.root.path, world.save(tmp_path, small_plan(1, ("false",))), "--yes")
        assert failed.code == 1, failed.err
        task = words or (world.save(tmp_path, small_plan(2)),)
        remount(made.root.path, "ro")
        try:
            assert "Read-only file system" in told(world.call(made.root.path, *task, "--yes"))
        finally:
            remount(made.root.path, "rw")
        assert install(world, made, tmp_path, 2).code == 0


@pytest.mark.parametrize("kibibytes", [64, 160, 660, 1500])
def test_a_full_state_folder_is_said_before_a_step_begins(world: World, tmp_path: Path, kibibytes: int) -> None:
    with world.fresh(tmp_path / "layer") as made:
        state = made.root.inside(STATE)
        with mounted(state, "tmpfs", f"size={kibibytes}k,mode=0755"):
            said = told(install(world, made, tmp_path))
            assert str(state) in said
            assert "make room" in said
            assert not made.root.inside("/etc/gp").exists()
            remount(state, "size=64m")
            done = world.call(made.root.path, "--resume", "--yes")
            done = done if done.code != 2 else install(world, made, tmp_path)
            assert done.code == 0, done.err
            assert made.root.inside("/etc/gp-0").exists()


def test_a_lock_that_cannot_be_written_is_said_before_the_first_change(world: World, tmp_path: Path) -> None:
    plan = world.save(tmp_path, small_plan())
    with world.fresh(tmp_path / "layer") as made:
        folder = made.root.inside(f"{STATE}/lock.json")
        folder.mkdir(parents=True)
        assert "lock.json: cannot be written: Is a directory" in told(world.call(made.root.path, plan, "--yes"))
        folder.rmdir()
        for place, why in ((tmp_path / "missing" / "a.json", "No such file"), (tmp_path, "Is a directory")):
            said = told(world.call(made.root.path, plan, "--yes", "--lock", str(place)))
            assert f"{place}: cannot be written: {why}" in said
        mine = tmp_path / "mine.json"
        mine.write_text('{"not": "a lock"}')
        refused = world.call(made.root.path, plan, "--yes", "--lock", str(mine))
        assert (refused.code, mine.read_text()) == (2, '{"not": "a lock"}')
        assert f"{mine}: is not a lock file, and would be replaced by one" in refused.err
        assert not made.root.inside("/etc/gp").exists()
        done = world.call(made.root.path, plan, "--yes", "--lock", str(tmp_path / "a.json"))
        assert done.code == 0, done.err
        assert (tmp_path / "a.json").is_file()


def test_a_lock_that_could_not_be_written_is_written_by_resume(world: World, tmp_path: Path) -> None:
    with world.fresh(tmp_path / "layer") as made:
        # A relative path: what the step does there is not watched, and the step stays done.
        plan = small_plan(0, ("sh", "-c", f"mkdir {STATE.lstrip('/')}/lock.json"))
        failed = told(world.call(made.root.path, world.save(tmp_path, plan), "--yes"))
        assert "everything is installed, but the lock was not written" in failed
        assert "`gpustack install --resume` writes the lock" in failed
        lock = made.root.inside(f"{STATE}/lock.json")
        lock.rmdir()
        done = world.call(made.root.path, "--resume", "--yes")
        assert done.code == 0, done.err
        assert lock.is_file()
        again = world.call(made.root.path, "--resume", "--yes")
        assert again.code == 2
        assert "there is no run to resume" in again.err


def harm(place: Path, what: str) -> str:
    """Make a place of the state folder one that others may have written in; what is said of it."""
    if what == "owner":
        os.chown(place, 1000, 0)
        return "belongs to the user 1000"
    place.chmod(place.stat().st_mode | stat.S_IWOTH)
    return "is writable by everyone"


@pytest.mark.parametrize("what", tiers({"owner": "owner", "mode": "mode"}, "mode"))
@pytest.mark.parametrize("name", ["", "runs", "runs/*", "runs/*/journal.jsonl", "runs/*/plan.json", "runs/*/kept"])
def test_what_somebody_else_may_have_written_is_not_trusted(world: World, tmp_path: Path, name: str, what: str) -> None:
    with world.fresh(tmp_path / "layer") as made:
        assert install(world, made, tmp_path).code == 0
        place = next(made.root.inside(STATE).glob(name)) if name else made.root.inside(STATE)
        said = harm(place, what)
        refused = told(world.call(made.root.path, "--rollback", "--yes"))
        assert said in refused
        assert str(place) in refused
        assert made.root.inside("/etc/gp-0").exists()
        os.chown(place, 0, 0)
        place.chmod(place.stat().st_mode & ~stat.S_IWOTH)
        done = world.call(made.root.path, "--rollback", "--yes")
        assert done.code == 0, done.err


def modes(made: Layer) -> dict[str, str]:
    """Type, mode and owner of all that the installation made."""
    found = {}
    for folder, folders, files in os.walk(made.upper):
        for name in (*folders, *files):
            place = Path(folder) / name
            there = place.lstat()
            path = str(place).removeprefix(str(made.upper))
            found[path] = f"{stat.filemode(there.st_mode)} {there.st_uid}:{there.st_gid}"
    return found


def test_the_umask_of_the_caller_changes_nothing(world: World, tmp_path: Path) -> None:
    made_with = {}
    for umask in (0o022, 0o077, 0o000):
        former = os.umask(umask)
        try:
            with world.fresh(tmp_path / f"{umask:03o}") as made:
                made.root.path.chmod(0o755)
                (tmp_path / "cache").mkdir(exist_ok=True)
                done = world.call(made.root.path, world.save(tmp_path), "--yes", GPUSTACK_CACHE="")
                assert done.code == 0, done.err
                made_with[umask] = modes(made)
                script = subprocess.run(
                    ["find", str(made.upper), "-perm", "-o+w", "!", "-type", "l", "!", "-perm", "-1000"],
                    capture_output=True,
                    text=True,
                    check=True,
                )
                assert script.stdout == ""
        finally:
            os.umask(former)
    assert made_with[0o077] == made_with[0o022]
    assert made_with[0o000] == made_with[0o022]
    kept = {mode for path, mode in made_with[0o022].items() if path.startswith(f"{RUNS}/")}
    assert kept == {"drwx------ 0:0", "-rw------- 0:0"}
    assert made_with[0o022]["/etc/gp.d"] == "drwxr-xr-x 0:0"
    assert made_with[0o022]["/etc/gp.d/more.conf"] == "-rw-r--r-- 0:0"
    assert made_with[0o022]["/etc/gp.conf"] == "-rw------- 0:0"
