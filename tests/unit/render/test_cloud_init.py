"""The cloud-init form: its own schema judges it, and what it would run is what the plan says."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from tests.unit.render.cases import GOLDEN, PLANS, compare, plan_for, plan_of, plan_on, texts, tool

from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, FileWrite, Step
from gpustack.render.cloud_init import LIMIT, render


@pytest.mark.parametrize("os", PLANS)
def test_user_data_is_the_golden_one(os: str, update_golden: bool) -> None:
    compare(GOLDEN / os / "stack.cloud-init", plan_on(os), render(plan_on(os)), update=update_golden)


def accepted(path: Path, text: str) -> subprocess.CompletedProcess[str]:
    path.write_text(text, encoding="utf-8")
    return subprocess.run(
        [tool("cloud-init"), "schema", "--config-file", str(path)], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("os", PLANS)
@pytest.mark.gate
def test_cloud_init_accepts_it(os: str, tmp_path: Path) -> None:
    judged = accepted(tmp_path / "user-data", render(plan_on(os)))
    assert judged.returncode == 0, judged.stdout + judged.stderr


@pytest.mark.gate
def test_cloud_init_accepts_hostile_strings_and_nothing(tmp_path: Path) -> None:
    for text in (render(hostile_plan("{{ a }}\n$(id)\u2028: x")), render(plan_of())):
        judged = accepted(tmp_path / "user-data", text)
        assert judged.returncode == 0, judged.stdout + judged.stderr


@pytest.mark.parametrize("os", PLANS)
def test_it_tells_its_size_and_fits_everywhere(os: str) -> None:
    text = render(plan_on(os))
    assert f"# {len(text.encode()):>6} bytes; EC2 takes {LIMIT}\n" in text
    assert len(text.encode()) <= LIMIT


def test_more_than_ec2_takes_is_said() -> None:
    text = render(plan_of(step("one", files=(FileWrite(path="/etc/large", content="x" * LIMIT),))))
    assert f"# {len(text.encode()):>6} bytes; EC2 takes {LIMIT}: more than EC2 takes" in text


def step(identity: str, **fields: Any) -> Step:
    return Step(
        id=identity, **{"component": "cuda", "kind": "run", "title": "t", "why": "", "phase": "toolkit", **fields}
    )


def hostile_plan(text: str) -> Plan:
    return plan_of(
        step("note", kind="note", title=text, why=text),
        step("hand", kind="manual", title=text, why=text, commands=(("prog", text),)),
        step("pin", files=(FileWrite(path="/etc/profile.d/a", content=text),)),
        step("file", files=(FileWrite(path=f"/etc/{text}", content=text),)),
        step("get", artifacts=(Artifact(url=f"https://a/{text}", path=f"/var/{text}/f", sha256="0" * 64),)),
        step("run", commands=(("prog", text),)),
        step("reboot", kind="reboot", reboot_after=True, commands=(("systemctl", "reboot"),), title=text, why=text),
        step("late", commands=(("prog", "late", text),), files=(FileWrite(path="/etc/late", content=text),)),
        name=text,
        warnings=(text,),
    )


@settings(max_examples=80, deadline=None)
@given(texts)
def test_hostile_strings_arrive_exactly(text: str) -> None:
    document = yaml.safe_load(render(hostile_plan(text)))
    files = {one["path"]: one for one in document["write_files"]}
    assert all(path.startswith("/var/lib/gpustack/cloud-init/") for path in files)
    placed = {argv[-1]: files[argv[-2]]["content"] for argv in document["runcmd"] if argv[:2] == ["install", "-D"]}
    assert placed[f"/etc/{text}"] == text
    assert placed["/etc/profile.d/a"] == text
    assert ["prog", text] in document["runcmd"]
    assert any(argv[-2:] == [f"/var/{text}/f", f"https://a/{text}"] for argv in document["runcmd"])
    script = placed["/var/lib/cloud/scripts/per-boot/gpustack-1.sh"]
    # The script itself, read by a real shell: prog says what it was called with.
    ran = subprocess.run(
        ["sh", "-s"],
        input=(
            'prog() { printf \'%s\\0\' "$@"; }\ninstall() { :; }\nrm() { :; }\ncat() { echo "$1"; }\n' + script
        ).encode(),
        capture_output=True,
        check=True,
    )
    assert ran.stdout == f"late\0{text}\0".encode()


def test_the_part_after_the_reboot_runs_at_the_next_boot_until_it_has_ended_well() -> None:
    document = yaml.safe_load(render(plan_on("ubuntu24.04")))
    assert document["runcmd"][0] == "set -e"
    handed = document["runcmd"][-1]
    assert handed[-1] == "/var/lib/cloud/scripts/per-boot/gpustack-1.sh"
    assert document["power_state"]["mode"] == "reboot"
    assert document["power_state"]["condition"] == ["test", "-e", handed[-1]]
    script = next(one["content"] for one in document["write_files"] if one["path"] == handed[-2])
    assert script.splitlines()[0] == "#!/bin/sh"
    assert script.splitlines()[2] == "set -e"
    assert "boot_id" in script.splitlines()[3]
    assert script.splitlines()[-1].startswith('rm -f -- "$0"')
    assert "cuda-toolkit" in script
    assert "cuda-toolkit" not in str(document["runcmd"])


def test_nothing_of_a_host_that_is_refused_is_changed() -> None:
    document = yaml.safe_load(render(plan_on("ubuntu24.04")))
    assert set(document) == {"write_files", "runcmd", "power_state"}
    assert document["runcmd"][1].startswith("sh /var/lib/gpustack/cloud-init/host.sh || {")
    script = next(one["content"] for one in document["write_files"] if one["path"].endswith("/host.sh"))
    other = script.replace("x86_64", "riscv64")
    ran = subprocess.run(["sh", "-s"], input=other, capture_output=True, text=True, check=False)
    assert ran.returncode == 4
    assert ran.stderr.startswith("error: this plan is for Ubuntu 24.04 LTS on riscv64; this host is ")


def test_nothing_reboots_where_nothing_has_to() -> None:
    document = yaml.safe_load(render(plan_for("cuda==13.*", "wsl-ubuntu24.04")))
    assert "power_state" not in document
    assert not any("after-reboot" in one["path"] for one in document["write_files"])
