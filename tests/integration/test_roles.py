"""The form of roles, run for real: hosts of one inventory get each their own role, apt's and zypper's, in one run.

Not as on a machine: the packages of the tests are empty, and nothing boots (see test_forms).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.integration.after import host_after, planned_again
from tests.integration.field import Ask, Scene, Workshop, answering
from tests.integration.managers import installed, missing
from tests.integration.roots import Root
from tests.integration.test_forms import prepared
from tests.unit.render.galaxy import ansible

from gpustack.render.api import render_tree

ASKED = {
    "web1": Ask("ubuntu22.04", ("cuda==12.*", "cudnn")),
    "web2": Ask("opensuse-leap15.6", ("driver", "cuda")),
}


def play(folder: Path, *more: str) -> dict[str, int]:
    """Run the playbook over all hosts; how many tasks changed each of them."""
    done = ansible(
        "ansible-playbook", "-i", "out/inventory.yml", "-i", "roots", "-e", "gpustack_reboot=false", "out/playbook.yml",
        *more, cwd=folder, HOME="/root",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    recap = re.findall(r"^(\w+)\s+: ok=(\d+)\s+changed=(\d+) .*failed=0", done.stdout, re.MULTILINE)
    assert all(int(ok) for _, ok, _ in recap)
    return {name: int(changed) for name, _, changed in recap}


@pytest.mark.slow
def test_each_host_gets_its_role_and_a_second_run_changes_none(
    workshop: Workshop, enter: Callable[..., Root], tmp_path: Path
) -> None:
    scenes: dict[str, Scene] = {}
    roots: dict[str, Root] = {}
    for name, ask in ASKED.items():
        (tmp_path / name).mkdir()
        scenes[name] = Scene(workshop, ask, tmp_path / name)
        roots[name] = prepared(answering(enter(scenes[name]), scenes[name].plan), {})
    plans = {name: scene.plan for name, scene in scenes.items()}
    for path, text in render_tree(plans, "ansible").items():
        place = tmp_path / "out" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    lines = [
        f"{name} ansible_connection=community.general.chroot ansible_host={root.path} ansible_become=false "
        "ansible_python_interpreter=/usr/bin/python3"
        for name, root in roots.items()
    ]
    (tmp_path / "roots").write_text("\n".join(lines) + "\n", encoding="utf-8")
    groups = yaml.safe_load((tmp_path / "out/inventory.yml").read_text())["all"]["children"]
    assert sorted(host for group in groups.values() for host in group["hosts"]) == sorted(plans)
    assert len(groups) == len(list((tmp_path / "out/roles").iterdir())) == 2
    told = play(tmp_path, "--check")
    for name, root in roots.items():
        assert missing(plans[name], installed(root, scenes[name].system.family)), "--check has installed something"
    changed = play(tmp_path)
    assert changed == told
    assert all(changed.values())
    for name, root in roots.items():
        assert not missing(plans[name], installed(root, scenes[name].system.family))
        again = planned_again(host_after(root, scenes[name]), scenes[name])
        assert [step.title for step in again.steps] == [], name
    assert play(tmp_path) == dict.fromkeys(plans, 0)
