"""What a run was begun with, `--resume` goes on with: the tree, mirrors, the bundle, the lock that is to be written.

The state of the running system lies in a folder of the test: there it is noted which tree the last run was begun in.
"""

from __future__ import annotations

import fcntl
import json
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from tests.by_hand import draft
from tests.install.layers import Layer
from tests.install.test_kills import KILLED, assert_undisturbed, rollback
from tests.install.world import VENDOR, World, ended, make_plan

from gpustack.install.lock import document as locks
from gpustack.install.run.state import runs
from gpustack.model.plan import Plan
from gpustack.model.steps import FileWrite

PASSWORD = "open-sesame"  # noqa: S105 (of no account)
step = partial(draft, component="", why="the test asks for it", phase="driver")


class Machine:
    """``gpustack`` on the running system, whose state lies in ``folder``."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.state = folder / "state"
        self.state.mkdir()

    def call(self, *words: str, front: tuple[str, ...] = (), **more: str) -> subprocess.CompletedProcess[str]:
        program = ("-m", "tests.install.launcher") if "DIE_AT" in more else ("-m", "gpustack")
        enter = f'mount --bind "{self.state}" /var/lib && exec "$@"'
        command = ["unshare", "--mount", *front, "sh", "-c", enter, "sh", sys.executable, *program, *words]
        own = {"GPUSTACK_CACHE": str(self.state.with_name("cache"))}  # what another test downloaded is not there
        environment = self.world.environment(**(own | more))
        del environment["GPUSTACK_MIRRORS"]
        return ended(command, environment)


@pytest.fixture
def machine(world: World, tmp_path: Path) -> Machine:
    return Machine(world, tmp_path)


def readable_by_all(folder: Path, text: str) -> list[Path]:
    """The files that hold ``text`` and that everybody may read."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [one for one in files if stat.S_IMODE(one.stat().st_mode) & 0o077 and text.encode() in one.read_bytes()]


def test_tree_mirror_and_lock_are_those_of_the_first_run(world: World, machine: Machine, tmp_path: Path) -> None:
    lock, cache = tmp_path / "stack.lock.json", tmp_path / "cache"
    secret = world.server.replace("//", f"//somebody:{PASSWORD}@")
    with world.fresh(tmp_path / "layer") as made:
        words = ("--root", str(made.root.path), "--mirror", f"{VENDOR}={secret}/", "--lock", str(lock))
        more = {"GPUSTACK_CACHE": str(cache)}
        killed = machine.call("install", world.save(tmp_path), "--yes", *words, DIE_AT="after origin *", **more)
        assert killed.returncode == KILLED
        assert not made.changes()
        again = machine.call("install", "--resume", "--yes", **more, DIE_AT="after start key-file")
        assert again.returncode == KILLED, again.stderr
        assert not list(cache.glob("partial/*"))
        last = machine.call("install", "--resume", "--yes", **more)
        assert last.returncode == 0, last.stderr
        assert f"resuming in {made.root.path}, where the last run was started" in last.stderr
        assert_undisturbed(world, made)
        assert {one.name for one in locks.load(lock).packages} >= {"gp-tool", "gp-lib"}
        state = made.root.inside("/var/lib/gpustack")
        assert PASSWORD in runs(state)[-1].journal.read_text()
        for place in (state, cache, machine.state):
            assert not readable_by_all(place, PASSWORD)
        assert PASSWORD not in again.stderr + last.stderr
        assert machine.call("install", "--resume", "--yes").returncode == 2
        rollback(world, made)
    # The tree is not mounted any more: nothing is made in the folder that it was mounted on.
    (tmp_path / "layer/root").mkdir()
    assert machine.call("install", "--resume", "--yes").returncode == 2
    assert not (tmp_path / "layer/root/var").exists()


def test_a_mirror_that_is_named_again_takes_the_place_of_the_first(
    world: World, machine: Machine, tmp_path: Path
) -> None:
    with world.fresh(tmp_path / "layer") as made:
        root = ("--root", str(made.root.path))
        gone = f"http://somebody:{PASSWORD}@localhost:1/"
        more = {"GPUSTACK_CACHE": str(tmp_path / "cache")}
        first = machine.call("install", world.save(tmp_path), "--yes", *root, "--mirror", f"{VENDOR}={gone}", **more)
        assert first.returncode == 1
        assert "http://localhost:1/gp.tar.gz" in first.stderr
        assert PASSWORD not in first.stderr
        again = machine.call("install", "--resume", "--yes", "--mirror", f"{VENDOR}={world.server}/", **more)
        assert again.returncode == 0, again.stderr
        assert_undisturbed(world, made)


def test_wait_reboot_and_least_speed_are_those_of_the_first_run(world: World, machine: Machine, tmp_path: Path) -> None:
    with world.fresh(tmp_path / "layer") as made:
        words = ("--root", str(made.root.path), "--wait", "0.3", "--reboot", "never", "--min-speed", "5")
        mirror = ("--mirror", f"{VENDOR}={world.server}/")
        killed = machine.call("install", world.save(tmp_path), "--yes", *words, *mirror, DIE_AT="before start edit")
        assert killed.returncode == KILLED, killed.stderr
        with made.root.inside("/var/lib/dpkg/lock-frontend").open("w") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            again = machine.call("install", "--resume", "--yes")
        assert again.returncode == 1, again.stderr
        assert "the package database is locked by" in again.stderr
        journal = runs(made.root.inside("/var/lib/gpustack"))[-1].history()
        assert (journal.origin.wait, journal.origin.reboot, journal.origin.min_speed) == (0.3, "never", 5.0)
        last = machine.call("install", "--resume", "--yes", "--wait", "200", GPUSTACK_MIN_SPEED="0")
        assert last.returncode == 0, last.stderr
        journal = runs(made.root.inside("/var/lib/gpustack"))[-1].history()
        assert (journal.origin.wait, journal.origin.reboot, journal.origin.min_speed) == (200.0, "never", 0.0)


def files_only(world: World) -> Plan:
    (archive,) = (one for step in world.plan.steps for one in step.artifacts if one.path.endswith(".tar.gz"))
    get = step("get", kind="download", title="download", artifacts=(archive,))
    write = step("write", kind="write-file", title="write", files=(FileWrite(path="/opt/gp/new", content="x\n"),))
    return make_plan([get, write])


def test_a_bundle_is_gone_on_with_where_no_network_is(world: World, machine: Machine, tmp_path: Path) -> None:
    plan, bundle = world.save(tmp_path, files_only(world)), tmp_path / "bundle"
    mirror = ("--mirror", f"{VENDOR}={world.server}/")
    made_bundle = machine.call("fetch", plan, "--to", str(bundle), *mirror)
    assert made_bundle.returncode == 0, made_bundle.stderr
    cut = ("--net",)
    with world.fresh(tmp_path / "layer") as made:
        words = ("install", "--yes", "--bundle", "bundle", "--root", str(made.root.path))
        killed = in_folder(machine, tmp_path, words, DIE_AT="after start get", GPUSTACK_CACHE=str(tmp_path / "none"))
        assert killed.returncode == KILLED, killed.stderr
        moved = bundle.rename(tmp_path / "unplugged")
        missing = machine.call("install", "--resume", "--yes", front=cut)
        assert missing.returncode == 1
        assert "restore it to that place" in missing.stderr
        assert str(bundle) in missing.stderr
        moved.rename(bundle)
        done = machine.call("install", "--resume", "--yes", front=cut)
        assert done.returncode == 0, done.stderr
        assert made.root.inside("/opt/gp/new").read_text() == "x\n"
        assert kept_archive(made) == (Path(plan).parent / "bundle" / archive_of(bundle)).read_bytes()


def in_folder(machine: Machine, folder: Path, words: tuple[str, ...], **more: str) -> subprocess.CompletedProcess[str]:
    """As somebody calls it who names the bundle by a relative path."""
    return machine.call(*words, front=("--wd", str(folder)), **more)


def archive_of(bundle: Path) -> str:
    return str(next(iter(json.loads((bundle / "manifest.json").read_text())["artifacts"].values())))


def kept_archive(made: Layer) -> bytes:
    return made.root.inside("/var/cache/gpustack/gp/gp.tar.gz").read_bytes()


def test_matrices_are_those_of_the_first_run(world: World, machine: Machine, tmp_path: Path) -> None:
    """The lock that the resumed run writes is made with them, so that a fault in them is named."""
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    with world.fresh(tmp_path / "layer") as made:
        words = ("--root", str(made.root.path), "--mirror", f"{VENDOR}={world.server}/", "--matrices", str(overlay))
        lock = ("--lock", str(tmp_path / "stack.lock.json"))
        killed = machine.call("install", world.save(tmp_path), "--yes", *words, *lock, DIE_AT="before start edit")
        assert killed.returncode == KILLED, killed.stderr
        (overlay / "spoilt.yaml").write_text("about: [\n")
        again = machine.call("install", "--resume", "--yes")
        assert again.returncode == 1, again.stderr
        assert f"everything is installed, but the lock was not written: {overlay}/spoilt.yaml" in again.stderr
        assert_undisturbed(world, made)
        (overlay / "spoilt.yaml").unlink()
        last = machine.call("install", "--resume", "--yes")
        assert last.returncode == 0, last.stderr
        assert {one.name for one in locks.load(tmp_path / "stack.lock.json").packages} >= {"gp-tool", "gp-lib"}
