"""One fleet on apt, dnf and zypper at once: detected, planned, changed in waves, verified, reported; one host fails.

The package managers and their signed repositories are real, the systems are their trees in name only: packages are
those of Debian (dnf, zypper, rpm), and os-release says what each root stands for.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import call  # noqa: F401
from tests.integration.field import Ask, Scene, Workshop, answering
from tests.integration.managers import installed, missing
from tests.integration.roots import Root
from tests.integration.test_fleet import ansible_home, answers, inventory, phases  # noqa: F401
from tests.integration.test_fleet_of_50 import until
from tests.integration.test_forms import PREPARED, prepared

pytestmark = pytest.mark.slow
REQUIREMENTS = ("cuda==12.*",)
SYSTEMS = {
    "ubuntu22.04": {},
    "rocky9": PREPARED["rocky9"],
    "opensuse-leap15.6": {
        "/etc/os-release": 'ID="opensuse-leap"\nNAME="openSUSE Leap"\nVERSION_ID="15.6"\nID_LIKE="suse opensuse"\n'
    },
}
HOSTS = {"u1": "ubuntu22.04", "r1": "rocky9", "r2": "rocky9", "s1": "opensuse-leap15.6", "s2": "opensuse-leap15.6"}
BAD = "r2"


def joint(scenes: dict[str, Scene], folder: Path) -> Path:
    """The overlays of all scenes as one."""
    folder.mkdir()
    for path in sorted({path.name for scene in scenes.values() for path in scene.overlay.iterdir()}):
        found = [json.loads(file.read_text()) for scene in scenes.values() if (file := scene.overlay / path).is_file()]
        tables: dict[str, list[object]] = {}
        for document in found:
            for name, table in document["tables"].items():
                tables.setdefault(name, []).extend(table["rows"])
        (folder / path).write_text(
            json.dumps({**found[0], "tables": {name: {"rows": rows} for name, rows in tables.items()}})
        )
    return folder


@pytest.mark.usefixtures("ansible_home")
def test_three_package_managers_in_one_run(
    workshop: Workshop,
    enter: Callable[..., Root],
    tmp_path: Path,
    call: Callable,  # noqa: F811
) -> None:
    scenes: dict[str, Scene] = {}
    for name in SYSTEMS:
        (tmp_path / name).mkdir()
        scenes[name] = Scene(workshop, Ask(name, REQUIREMENTS, ("--method", "network")), tmp_path / name)
    roots = {}
    for host, system in HOSTS.items():
        scene = scenes[system]
        roots[host] = prepared(answering(enter(scene, host), scene.plan), SYSTEMS[system])
        if not scene.is_apt:
            shutil.rmtree(roots[host].inside("/var/lib/dpkg"))  # by it the tree would be Debian, whatever it says
        answers(roots[host], "fail" if host == BAD else "pass", "broken on purpose")
    hosts = inventory(tmp_path / "hosts.ini", roots)
    own = ("--matrices", str(joint(scenes, tmp_path / "overlay")))
    snap, folder = tmp_path / "snap", tmp_path / "plans"

    detected = call("fleet", "detect", "-i", str(hosts), "--out", str(snap), *own)
    assert detected.code == 0, detected.err
    assert "5 of 5 hosts answered" in detected.out
    allowed = [word for name in HOSTS for word in ("--allow", name)]
    plan = ("fleet", "plan", str(snap), *REQUIREMENTS, "--method", "network", *allowed, *own, "--detailed-exitcode")
    planned = call(*plan, "--out", str(folder))
    assert planned.code == 6, planned.out + planned.err
    classes = json.loads((folder / "fleet-plan.json").read_text())["classes"]
    assert sorted(one["hosts"] for one in classes) == [["r1", "r2"], ["s1", "s2"], ["u1"]]

    apply = ("fleet", "apply", str(folder), "--waves", "1,100%", "--gate", "quick", "--reboot", "never", "--yes", *own)
    first = stopped_by_ctrl_c(apply, folder, call)
    ended = call(*apply, "--resume")
    assert not {host for host, _ in phases(folder)[first:]} & {phases(folder)[0][0]}, (
        "a host that is done was begun again"
    )
    assert ended.code == 1, ended.out + ended.err
    assert f"{BAD}: failed: cuda.nvcc: broken on purpose" in ended.out
    assert "4 done, 1 failed" in ended.out
    for host, root in roots.items():
        scene = scenes[HOSTS[host]]
        assert not missing(scene.plan, installed(root, scene.system.family)), host

    answers(roots[BAD], "pass")
    resumed = call(*apply, "--resume")
    assert resumed.code == 0, resumed.out + resumed.err
    count = len(phases(folder))
    assert call(*apply).code == 0
    assert len(phases(folder)) == count, "a second apply has done something"

    assert call("fleet", "detect", "-i", str(hosts), "--out", str(snap), *own).code == 0
    again = call(*plan)
    assert again.code == 0, again.out
    assert again.out.count("nothing to do") == len(SYSTEMS)

    reports = tmp_path / "reports"
    assert call("fleet", "verify", "-i", str(hosts), "cuda", "--out", str(reports)).code == 0
    told = call("fleet", "report", str(reports), "--output", str(tmp_path / "fleet.xml"))
    assert told.code == 0, told.out + told.err
    assert (tmp_path / "fleet.xml").read_text().count("<testsuite ") == len(HOSTS)


def stopped_by_ctrl_c(apply: tuple[str, ...], folder: Path, call: Callable) -> int:  # noqa: F811
    """The first wave comes to its end, no other begins; meanwhile another controller is refused. The records so far."""
    process = subprocess.Popen([sys.executable, "-m", "gpustack", *apply], stdout=subprocess.PIPE, text=True)
    until(lambda: (folder / "apply.jsonl").exists() and "begun" in {phase for _, phase in phases(folder)}, process)
    second = call(*apply, "--resume")
    assert second.code == 1
    assert second.err.startswith("error[fleet-running]: "), second.err
    assert f"process {process.pid} on " in second.err
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate()
    assert process.returncode == 130
    assert "1 done, 0 failed, 0 stale, 4 not begun" in out
    assert len({host for host, _ in phases(folder)}) == 1
    return len(phases(folder))
