"""A disk that is full where the state lies, whatever its size: a sentence, nothing half done, and it goes on with room."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.install.layers import mounted
from tests.install.test_faults import fill, remount
from tests.install.test_kills import KILLED, assert_nothing_left, assert_undisturbed
from tests.install.world import World
from tests.tiers import tiers

from gpustack.install.run.state import runs

ROOM = "size=64m"


@pytest.mark.parametrize("kibibytes", tiers({str(one): one for one in (64, 660, 1100, 3300, 3700)}, "660", "3300"))
def test_installed_resumed_and_rolled_back(world: World, tmp_path: Path, kibibytes: int) -> None:
    plan = world.save(tmp_path)
    with world.fresh(tmp_path / "layer") as made:
        state = made.root.inside("/var/lib/gpustack")
        with mounted(state, "tmpfs", f"size={kibibytes}k,mode=0700"):
            failed = world.call(made.root.path, plan, "--yes")
            assert failed.code == 1, failed.err
            assert "internal fault" not in failed.err
            assert "No space left on device" in failed.err or "room" in failed.err
            remount(state, ROOM)
            done = world.call(made.root.path, plan, "--yes")
            assert done.code == 0, done.err
            assert_undisturbed(world, made)
            # The room that a rollback needs is taken from under it, and given back.
            filler = state / "filler"
            fill(filler)
            while (full := world.call(made.root.path, "--rollback", "--yes")).code != 0:
                assert "internal fault" not in full.err
                assert "No space left on device" in full.err or "room" in full.err
                filler.unlink(missing_ok=True)
            assert_nothing_left(world, made)


def test_no_room_for_the_output_of_commands(world: World, tmp_path: Path) -> None:
    """The journal has room, what commands print has none: a sentence or success, and it goes on with room."""
    small = tmp_path / "small"
    small.mkdir()
    with world.fresh(tmp_path / "layer") as made, mounted(small, "tmpfs", "size=16k"):
        killed = world.call(made.root.path, world.save(tmp_path), "--yes", DIE_AT="before start edit")
        assert killed.code == KILLED
        output = runs(made.root.inside("/var/lib/gpustack"))[-1].output
        output.touch()
        (small / "output").touch()
        fill(small / "filler")
        subprocess.run(["mount", "--bind", str(small / "output"), str(output)], check=True)
        try:
            full = world.call(made.root.path, "--resume", "--yes")
        finally:
            subprocess.run(["umount", str(output)], check=True)
        assert full.code in {0, 1}, full.err
        assert "internal fault" not in full.err
        if full.code:
            assert "error[" in full.err
            again = world.call(made.root.path, "--resume", "--yes")
            assert again.code == 0, again.err
        assert_undisturbed(world, made)
        rolled = world.call(made.root.path, "--rollback", "--yes")
        assert rolled.code == 0, rolled.err
        assert_nothing_left(world, made)
