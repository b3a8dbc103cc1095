"""SIGKILL around and in the middle of the steps of a plan for dnf and zypper: on to the same end, or all the way back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.install.layers import Layer
from tests.install.rpm_world import KEYS, make_rpm_world
from tests.install.test_faults import fill, remount
from tests.install.test_kills import KILLED, kill, wait_for
from tests.install.world import World
from tests.integration.keys import SigningKeys
from tests.integration.managers import installed
from tests.integration.roots import base_tree, own_release
from tests.tiers import tiers


@pytest.fixture(scope="module")
def rpm_world(
    request: pytest.FixtureRequest, keys: SigningKeys, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("rpm-world")
    with make_rpm_world(base_tree(own_release()), keys, folder, request.param) as made:
        yield made


State = tuple[dict[str, str], dict[str, str]]


def state(made: Layer) -> State:
    """What differs from the tree below, but for Python's caches and the files that a killed rpm left in /tmp; packages."""
    mess = ("/tmp/", "/var/tmp/")  # noqa: S108 (of the tree)
    changes = {
        path: text for path, text in made.changes().items() if "__pycache__" not in path and not path.startswith(mess)
    }
    return changes, installed(made.root, "dnf")


@pytest.fixture(scope="module")
def ends(rpm_world: World, tmp_path_factory: pytest.TempPathFactory) -> dict[str, State]:
    """The state before, and behind a run that nothing disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with rpm_world.fresh(folder / "layer") as made:
        before = state(made)
        done = rpm_world.call(made.root.path, rpm_world.save(folder), "--yes")
        assert done.code == 0, done.err
        after = state(made)
        assert {"gp-tool": "1.0-1", "gp-lib": "1.0-1", "gp-old": "2.0-1"}.items() <= after[1].items()
        assert "gp-gone" not in after[1]
        return {"--resume": after, "--rollback": before}


def end(world: World, made: Layer, ends: dict[str, State], how: str) -> None:
    done = world.call(made.root.path, how, "--yes")
    assert done.code == 0, done.err
    assert state(made) == ends[how]


@pytest.mark.parametrize("rpm_world", ["dnf"], indirect=True)
def test_a_run_that_dies_in_every_step(rpm_world: World, ends: dict[str, State], tmp_path: Path) -> None:
    with rpm_world.fresh(tmp_path / "layer") as made:
        task = [rpm_world.save(tmp_path)]
        for number, key in enumerate(KEYS):
            moment = ("torn end", "before end", "after start", "before end", "after end")[number]
            assert rpm_world.call(made.root.path, *task, "--yes", DIE_AT=f"{moment} {key}").code == KILLED, key
            task = ["--resume"]
        end(rpm_world, made, ends, "--resume")
        end(rpm_world, made, ends, "--rollback")


STALLS = {
    "before it unpacks": "unpack",
    "when it has unpacked": "configure",
    "between two versions": "upgrade",
    "before it removes": "remove",
    "when it has removed": "removed",
}
"""What rpm does when it is killed, and the script of a package that waits there."""

MOMENTS = {"dnf": tuple(STALLS), "zypper": ("between two versions", "when it has removed")}
"""rpm is the same below both; with zypper, the moments after which it has itself to bring files back."""
CASES = {
    f"{manager}, {when}, {how}": (manager, STALLS[when], how)
    for manager, moments in MOMENTS.items()
    for when in moments
    for how in ("--resume", "--rollback")
}
ALWAYS = (
    *(
        "dnf, before it unpacks, --resume",
        "dnf, between two versions, --resume",
        "dnf, between two versions, --rollback",
    ),
    *("dnf, when it has removed, --rollback", "zypper, between two versions, --rollback"),
    "zypper, when it has removed, --resume",
)
"""Before anything is changed, half of a change, all of it; each way out of the middle."""


@pytest.mark.parametrize(("rpm_world", "stall", "how"), tiers(CASES, *ALWAYS), indirect=["rpm_world"])
def test_a_package_manager_that_is_killed_with_us(
    stall: str, how: str, rpm_world: World, ends: dict[str, State], tmp_path: Path
) -> None:
    with rpm_world.fresh(tmp_path / "layer") as made:
        made.root.write(f"/srv/stall-{stall}", "")
        process = rpm_world.start(made.root.path, rpm_world.save(tmp_path), "--yes")
        wait_for(made.root.inside("/srv/stalled").exists)
        kill(process, with_children=True)
        for name in (f"stall-{stall}", "stalled"):
            made.root.inside(f"/srv/{name}").unlink()
        end(rpm_world, made, ends, how)


@pytest.mark.parametrize("rpm_world", ["dnf"], indirect=True)
def test_a_disk_that_fills_up_in_the_middle(rpm_world: World, ends: dict[str, State], tmp_path: Path) -> None:
    with rpm_world.fresh(tmp_path / "layer") as made:
        made.root.write("/srv/stall-unpack", "")
        process = rpm_world.start(made.root.path, rpm_world.save(tmp_path), "--yes")
        wait_for(made.root.inside("/srv/stalled").exists)
        remount(made.upper.parent, "size=64m")
        filler = made.upper.parent / "filler"
        fill(filler)
        made.root.inside("/srv/stall-unpack").unlink()
        told = process.communicate(timeout=120)[1]
        assert process.returncode == 1, told
        filler.unlink()
        remount(made.upper.parent, "size=512m")
        made.root.inside("/srv/stalled").unlink(missing_ok=True)
        end(rpm_world, made, ends, "--resume")
        end(rpm_world, made, ends, "--rollback")
