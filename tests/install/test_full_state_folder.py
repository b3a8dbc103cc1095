"""A disk that is full where the state lies, whatever its size: a sentence, nothing half done, and it goes on with room."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.install.layers import mounted
from tests.install.test_faults import fill, remount
from tests.install.test_kills import assert_nothing_left, assert_undisturbed
from tests.install.world import World

ROOM = "size=64m"


@pytest.mark.parametrize("kibibytes", [64, 660, 1100, 3300, 3700])
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
