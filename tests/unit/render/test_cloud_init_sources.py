"""Repositories in user-data: cloud-init's own modules where the plan carries the key, the plan's commands elsewhere."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace
from tests.unit.render.cases import plan_for

from gpustack.errors import UsageError
from gpustack.model.plan import Plan
from gpustack.model.steps import PackageSource, Step
from gpustack.render.api import render, render_short

STACK = "driver cuda container-toolkit"


def user_data(plan: Plan) -> Any:
    return yaml.safe_load(render(plan, "cloud-init"))


def with_source(plan: Plan, **changes: str) -> Plan:
    def changed(step: Step) -> Step:
        if not isinstance(step.repository, PackageSource):
            return step
        return replace(step, repository=replace(step.repository, **changes))

    return replace(plan, steps=tuple(changed(step) for step in plan.steps))


def test_apt_sources_name_keys_that_lie_there_before() -> None:
    document = user_data(plan_for(STACK, "ubuntu24.04"))
    files = {one["path"]: one for one in document["write_files"]}
    for source in document["apt"]["sources"].values():
        keyring = source["source"].partition("signed-by=")[2].partition("]")[0]
        assert base64.b64decode(files[keyring]["content"]).startswith(b"\x99"), "a key in OpenPGP's old packet format"
        assert files[keyring]["encoding"] == "b64"
    assert len(document["apt"]["sources"]) == 2
    assert document["package_update"] is True
    commands = str(document["runcmd"])
    assert "cuda-keyring" not in commands
    assert "gpg" not in commands
    assert "/etc/apt/preferences.d/cuda-repository-pin-600" in files


def test_yum_repositories_are_those_of_the_plan() -> None:
    document = user_data(plan_for(STACK, "rhel9"))
    cuda = document["yum_repos"]["cuda-rhel9-x86_64"]
    assert (cuda["enabled"], cuda["gpgcheck"]) == (True, 1)
    assert cuda["baseurl"] == "https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64/"
    # The facts have no text of this key: it is fetched and compared before the first package.
    assert "610C7B14E068A878070DA4E99CD0A493D42D0685" in str(document["runcmd"])
    signed = document["yum_repos"]["nvidia-container-toolkit"]
    assert signed["repo_gpgcheck"] == 1
    assert signed["gpgkey"].removeprefix("file://") in {one["path"] for one in document["write_files"]}


@pytest.mark.parametrize(
    "changes",
    [
        {"key": ""},
        {"key": "no key"},
        {"url": "https://x/ $(id)"},
        {"keyring": "/a b"},
        {"file": "../x"},
        {"arch": "a b"},
    ],
    ids=str,
)
def test_what_no_source_line_can_carry_stays_with_the_commands(changes: dict[str, str]) -> None:
    document = user_data(with_source(plan_for(STACK, "ubuntu24.04"), **changes))
    assert "apt" not in document
    assert "cuda-keyring" in str(document["runcmd"])


def test_where_entries_are_switched_off_first_no_module_adds_others() -> None:
    plan = plan_for(STACK, "ubuntu24.04")
    first = Step(
        id="off", component="", kind="run", title="t", why="w", commands=(("mv", "a", "b"),), phase="preflight"
    )
    document = user_data(replace(plan, steps=(first, *plan.steps)))
    assert "apt" not in document


def hook(folder: Path) -> Path:
    """The script of the short form, with all its paths below ``folder`` and stand-ins for what it calls."""
    document = yaml.safe_load(render_short(plan_for("driver cuda", "ubuntu24.04"), "cloud-init"))
    (file,) = document["write_files"]
    assert file["path"].startswith("/var/lib/cloud/scripts/per-boot/")
    assert document["power_state"]["condition"] == "test -e /var/lib/gpustack/cloud-init/boot-id"
    text = (
        file["content"].replace("/var/lib/gpustack", f"{folder}/state").replace("/proc/sys/kernel/random", str(folder))
    )
    script = folder / "hook.sh"
    script.write_text(text)
    for name in ("gpustack", "shutdown"):
        program = folder / name
        program.write_text(
            f'#!/bin/sh\necho {name} "$@" >>{folder}/calls\n[ {name} = shutdown ] || exit "$(cat {folder}/code)"\n'
        )
        program.chmod(0o755)
    return script


def run(script: Path, code: int, boot: str) -> tuple[int, list[str]]:
    """Run the script in a boot, with an installer that exits so; its own code, and what it called."""
    folder = script.parent
    (folder / "code").write_text(str(code))
    (folder / "boot_id").write_text(boot)
    (folder / "calls").write_text("")
    done = subprocess.run(["sh", str(script)], check=False, env={"PATH": f"{folder}:/usr/bin:/bin"})
    return done.returncode, (folder / "calls").read_text().splitlines()


def test_the_short_form_installs_the_stack_and_goes_on_after_each_reboot(tmp_path: Path) -> None:
    script = hook(tmp_path)
    code, calls = run(script, 5, "one")
    assert code == 0
    assert len(calls) == 1
    assert calls[0].startswith("gpustack install --yes --reboot never ")
    assert " driver==" in calls[0]
    assert " cuda==" in calls[0]
    assert run(script, 5, "one") == (0, []), "the same boot: the reboot is still to come"
    again, rebooted = run(script, 5, "two")
    assert (again, rebooted) == (0, ["gpustack install --resume --yes --reboot never", "shutdown -r now"])
    assert run(script, 0, "three") == (0, ["gpustack install --resume --yes --reboot never"])
    assert not script.exists()


def test_the_short_form_tries_again_after_a_failure(tmp_path: Path) -> None:
    script = hook(tmp_path)
    code, calls = run(script, 1, "one")
    assert code == 1
    assert script.exists()
    assert run(script, 0, "two") == (0, calls)
    assert not script.exists()


def test_only_cloud_init_has_a_short_form() -> None:
    with pytest.raises(UsageError, match="no short form"):
        render_short(plan_for("driver cuda", "ubuntu24.04"), "shell")
