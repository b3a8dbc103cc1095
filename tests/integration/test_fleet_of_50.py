"""Fifty chroot hosts: a run that is killed in the middle and resumed, one host that fails on purpose."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from tests.cli.conftest import call  # noqa: F401
from tests.integration.field import Scene, Workshop, answering
from tests.integration.managers import installed, missing
from tests.integration.roots import Root, copy_tree
from tests.integration.test_fleet import ASK, answers, inventory, phases
from tests.integration.test_forms import prepared
from tests.unit.render.galaxy import collections

from gpustack.fleet.engine import leftovers

pytestmark = pytest.mark.slow
NAMES = [f"n{number:02}" for number in range(50)]
BAD = "n07"


def until(is_so: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
    """Look again and again, for ten minutes at most, as long as the process lives."""
    pause = Event()
    for _ in range(6000):
        if is_so():
            return
        assert process is None or process.poll() is None, "it ended too early"
        pause.wait(0.1)
    pytest.fail("it did not come to that")


def test_fifty_hosts_killed_in_the_middle_and_resumed(
    workshop: Workshop,
    enter: Callable[..., Root],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: Callable,  # noqa: F811
) -> None:
    monkeypatch.setenv("ANSIBLE_HOME", str(tmp_path / ".ansible"))
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", str(collections()))
    scene = Scene(workshop, ASK, tmp_path)
    first = prepared(answering(enter(scene, NAMES[0]), scene.plan), {})
    roots = {NAMES[0]: first, **{name: copy_tree(first.path, tmp_path / name) for name in NAMES[1:]}}
    for name, root in roots.items():
        answers(root, "fail" if name == BAD else "pass", "broken on purpose")
    hosts = inventory(tmp_path / "hosts.ini", roots)
    own = ("--matrices", str(scene.overlay))
    snap, folder = tmp_path / "snap", tmp_path / "plans"
    assert call("fleet", "detect", "-i", str(hosts), "--out", str(snap), *own).code == 0
    allowed = [word for name in NAMES for word in ("--allow", name)]
    plan = ("fleet", "plan", str(snap), *ASK.requirements, "--method", "network", *allowed, *own)
    assert call(*plan, "--out", str(folder)).code == 0
    [of_class] = json.loads((folder / "fleet-plan.json").read_text())["classes"]
    assert of_class["hosts"] == NAMES

    apply = ("fleet", "apply", str(folder), "--waves", "1,10%,100%", "--max-fail", "2%", "--gate", "quick")
    apply = (*apply, "--reboot", "never", "--yes", *own)
    process = subprocess.Popen([sys.executable, "-m", "gpustack", *apply], stdout=subprocess.DEVNULL)
    journal = folder / "apply.jsonl"
    until(lambda: journal.exists() and sum(phase == "verified" for _, phase in phases(folder)) > 8, process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    until(lambda: not leftovers(str(folder.resolve())))

    before = {name for name, phase in phases(folder) if phase == "done"}
    count = len(phases(folder))
    assert before
    assert len(before) < len(NAMES)
    ended = call(*apply, "--resume")
    assert ended.code == 1, ended.out + ended.err
    assert f"{BAD}: failed: cuda.nvcc: broken on purpose" in ended.out
    assert "49 done, 1 failed" in ended.out
    assert not before & {name for name, _ in phases(folder)[count:]}, "a host that is done was carried out again"
    answers(roots[BAD], "pass")
    assert call(*apply, "--resume").code == 0
    count = len(phases(folder))
    assert call(*apply).code == 0
    assert len(phases(folder)) == count, "a second apply has done something"
    for root in roots.values():
        assert not missing(scene.plan, installed(root, scene.system.family))
    assert call("fleet", "detect", "-i", str(hosts), "--out", str(snap), *own).code == 0
    again = call(*plan, "--detailed-exitcode")
    assert again.code == 0, again.out
