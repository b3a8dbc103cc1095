"""A fleet of chroot hosts, for real: detected, planned, changed in waves, verified; one fails, one has changed.

Not as on machines: the packages of the tests are empty, nothing boots, and a recorded report stands in for gpustack.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.cli.conftest import call  # noqa: F401
from tests.integration.field import Ask, Scene, Workshop, answering
from tests.integration.managers import installed, missing
from tests.integration.roots import Root
from tests.integration.test_forms import prepared
from tests.unit.render.galaxy import collections

from gpustack.model.host import Host
from gpustack.model.results import CheckResult, Report

pytestmark = [pytest.mark.gate, pytest.mark.slow]
ASK = Ask("ubuntu22.04", ("cuda==12.*",), ("--method", "network"))


def report(status: str, reason: str = "") -> str:
    check = CheckResult(id="cuda.nvcc", component="cuda", status=status, reason=reason)  # type: ignore[arg-type]
    return msgspec.json.encode(Report(host=Host(), checks=(check,), summary={status: 1})).decode()


def answers(root: Root, status: str, reason: str = "") -> None:
    """Let gpustack on that host print this report."""
    root.write("/root/report.json", report(status, reason))
    root.write("/usr/local/bin/gpustack", "#!/bin/sh\nexec cat /root/report.json\n", 0o755)


@pytest.fixture
def ansible_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_HOME", str(tmp_path / ".ansible"))
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", str(collections()))


def inventory(path: Path, roots: dict[str, Root]) -> Path:
    lines = [
        f"{name} ansible_connection=community.general.chroot ansible_host={root.path} ansible_become=false "
        "ansible_python_interpreter=/usr/bin/python3"
        for name, root in roots.items()
    ]
    path.write_text("# a line of the user's own\n[gpu]\n" + "\n".join(lines) + "\n")
    return path


def phases(folder: Path) -> list[tuple[str, str]]:
    records = [json.loads(line) for line in (folder / "apply.jsonl").read_text().splitlines()]
    return [(one["host"], one["phase"]) for one in records]


@pytest.mark.usefixtures("ansible_home")
def test_a_fleet_is_changed_in_waves_and_hosts_return_only_when_verified(  # noqa: PLR0915 (one fleet is expensive)
    workshop: Workshop,
    enter: Callable[..., Root],
    tmp_path: Path,
    call: Callable,  # noqa: F811
) -> None:
    scene = Scene(workshop, ASK, tmp_path)
    roots = {name: prepared(answering(enter(scene, name), scene.plan), {}) for name in ("n1", "n2", "n3", "n4")}
    hosts = inventory(tmp_path / "hosts.ini", roots)
    before = hosts.read_text()
    own = ("--matrices", str(scene.overlay))
    detected = call("fleet", "detect", "-i", str(hosts), "--out", str(tmp_path / "snap"), *own)
    assert detected.code == 0, detected.err
    assert "4 of 4 hosts answered" in detected.out
    allowed = [word for name in roots for word in ("--allow", name)]
    plan = ("fleet", "plan", str(tmp_path / "snap"), *ASK.requirements, "--method", "network", *allowed, *own)
    folder = tmp_path / "plans"
    planned = call(*plan, "--out", str(folder), "--detailed-exitcode")
    assert planned.code == 6, planned.out + planned.err
    assert len(list((folder / "plans").iterdir())) == 1

    answers(roots["n1"], "pass")
    answers(roots["n2"], "fail", "nvcc is not there")
    answers(roots["n3"], "pass")
    answers(roots["n4"], "pass")
    lock = roots["n4"].inside("/var/lib/gpustack/fleet.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.symlink_to("gpustack-of-another-controller")
    roots["n3"].write("/etc/apt/preferences.d/gpu", "Package: cuda*\nPin: version 1\nPin-Priority: 1001\n")
    log = tmp_path / "drained"
    (tmp_path / "drain").write_text(f'#!/bin/sh\necho "$@" >>{log}\n')
    (tmp_path / "drain").chmod(0o755)
    apply = ("fleet", "apply", str(folder), "--waves", "1,100%", "--gate", "quick", "--drain", str(tmp_path / "drain"))
    ended = call(*apply, "--reboot", "never", "--yes", *own)
    assert ended.code == 1, ended.out + ended.err
    assert "n2: failed: cuda.nvcc: nvcc is not there" in ended.out
    assert "n3: stale: " in ended.out
    assert "n4: failed: another run works on it: gpustack-of-another-controller" in ended.out
    assert "1 done, 2 failed, 1 stale" in ended.out
    assert log.read_text().split("\n")[:2] == ["drain n1", "restore n1"]
    assert sorted(log.read_text().split("\n")[2:-1]) == ["drain n2", "drain n4"]
    done = ["drained", "begun", "applied", "verified", "done"]
    assert [phase for name, phase in phases(folder) if name == "n1"] == done
    plan_of = scene.plan
    assert not missing(plan_of, installed(roots["n1"], scene.system.family))
    assert missing(plan_of, installed(roots["n3"], scene.system.family)), "a host that has changed was changed"
    assert not roots["n2"].inside("/var/lib/gpustack/fleet.lock").is_symlink()

    again = call(*apply, "--yes", *own)
    assert again.is_told(2), again.err
    assert again.err.startswith("error[paused]")
    roots["n3"].inside("/etc/apt/preferences.d/gpu").unlink()
    lock.unlink()
    answers(roots["n2"], "pass")
    resumed = call(*apply, "--reboot", "never", "--yes", "--resume", *own)
    assert resumed.code == 0, resumed.out + resumed.err
    again_drained = [f"{what} {name}" for what in ("drain", "restore") for name in ("n2", "n3", "n4")]
    assert sorted(log.read_text().split("\n")[4:-1]) == again_drained
    fleet = json.loads((folder / "reports/fleet.json").read_text())
    assert [(one["name"], one["state"]) for one in fleet["hosts"]] == [(name, "answered") for name in roots]
    count = len(phases(folder))
    assert call(*apply, "--yes", *own).code == 0
    assert len(phases(folder)) == count, "a second apply has done something"
    assert hosts.read_text() == before

    assert call("fleet", "detect", "-i", str(hosts), "--out", str(tmp_path / "snap"), *own).code == 0
    planned = call(*plan, "--detailed-exitcode")
    assert planned.code == 0, planned.out
    assert "nothing to do" in planned.out

    verifies_and_names_hosts_whose_verification_did_not_run(hosts, roots, tmp_path, call)


def verifies_and_names_hosts_whose_verification_did_not_run(
    hosts: Path,
    roots: dict[str, Root],
    folder: Path,
    call: Callable,  # noqa: F811
) -> None:
    answers(roots["n2"], "skip")
    roots["n3"].inside("/usr/local/bin/gpustack").unlink()
    words = ("fleet", "verify", "-i", str(hosts), "cuda", "--out", str(folder / "reports"))
    ended = call(*words)
    assert ended.code == 1
    assert "n2: no check passed: nothing was proven\n" in ended.out
    assert "n3: failed: " in ended.out
    assert "2 of 4 hosts passed" in ended.out
    assert not (folder / "reports/n3").exists()
    (folder / "gpustack.pyz").write_text("#!/bin/sh\nexec cat /root/report.json\n")
    answers(roots["n2"], "pass")
    ended = call(*words, "--program", str(folder / "gpustack.pyz"))
    assert ended.code == 0, ended.out
    found = json.loads((folder / "reports/n3/report.json").read_text())
    assert found["schema"] == "gpustack/report/v1"
