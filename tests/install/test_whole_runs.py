"""A plan with every kind of step, carried out for real in a Debian tree, and taken back to the last byte."""

from __future__ import annotations

from pathlib import Path

from tests.install.layers import packages
from tests.install.world import World


def test_a_run_does_what_its_plan_says_and_a_second_one_nothing(world: World, tmp_path: Path) -> None:
    plan = world.save(tmp_path)
    with world.fresh(tmp_path / "layer") as made:
        done = world.call(made.root.path, plan, "--yes")
        assert done.code == 0, done.err
        root = made.root
        there = packages(root)
        assert {name: there[f"{name}:amd64"].split()[0] for name in ("gp-tool", "gp-lib", "gp-old")} == {
            "gp-tool": "1.0",
            "gp-lib": "1.0",
            "gp-old": "2.0",
        }
        assert "gp-gone:amd64" not in there
        assert " hold " in there["gp-old:amd64"]
        assert root.inside("/etc/gp.conf").read_text() == "new = 1\n"
        assert root.inside("/usr/local/gp").readlink() == Path("/usr/local/gp-1.0")
        assert root.inside("/opt/gp/two").read_text() == "shared, new\n"
        assert root.inside("/etc/gp-old.list").read_text() == "# off: entry\n"
        changes = made.changes()
        again = world.call(made.root.path, plan, "--yes")
        assert again.code == 0, again.err
        assert "nothing to do" in again.err
        assert made.changes() == changes


def test_a_rollback_leaves_nothing_behind(world: World, tmp_path: Path) -> None:
    plan = world.save(tmp_path)
    with world.fresh(tmp_path / "layer") as made:
        before = packages(made.root)
        assert world.call(made.root.path, plan, "--yes").code == 0
        assert made.changes()
        done = world.call(made.root.path, "--rollback", "--yes")
        assert done.code == 0, done.err
        assert made.changes() == {}
        assert packages(made.root) == before
