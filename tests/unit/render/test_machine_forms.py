"""The forms for installers and builders of machines: Packer, Terraform, Kickstart, autoinstall, before their judges.

That Terraform itself plans, applies and refuses was seen by hand: docs/images-and-user-data.md says with which release.
"""

from __future__ import annotations

import configparser
import os
import re
import subprocess
from pathlib import Path

import hcl2
import pytest
import yaml
from hypothesis import given, settings
from msgspec.structs import replace
from pykickstart.parser import KickstartParser
from pykickstart.version import makeVersion
from tests.unit.render.cases import GOLDEN, compare, plan_for, plan_of, plan_on, texts, tool

from gpustack.errors import GpustackError, UnsupportedError, UsageError
from gpustack.model.plan import Plan
from gpustack.model.steps import Step
from gpustack.render import autoinstall, cloud_init, first_boot, kickstart, packer, shell, terraform
from gpustack.render.api import without_verification
from gpustack.render.hcl import heredoc


def unescaped(text: str) -> str:
    """What HCL makes of the text of a heredoc."""
    return text.replace("$${", "${").replace("%%{", "%{")


def embedded(text: str) -> str:
    """The text of the first heredoc."""
    found = re.search(r"<<(GPUSTACK_*)\n(.*?\n)\1\n", text, re.DOTALL)
    assert found
    return found[2]


@pytest.mark.parametrize("os_name", ["ubuntu24.04", "rhel9"])
def test_packer_carries_out_the_script_reboots_and_goes_on(os_name: str, update_golden: bool) -> None:
    plan = plan_on(os_name)
    text = packer.render(plan)
    script = embedded(text)
    assert unescaped(script) == shell.render(plan)
    compare(GOLDEN / os_name / "stack.packer", plan, text.replace(script, "THE SCRIPT\n"), update=update_golden)
    build = hcl2.loads(text)["build"][0]
    runs = [one['"shell"'] for one in build["provisioner"]]
    assert [run["inline"] for run in runs] == [["${local.run}"], ['"systemctl reboot"'], ["${local.run}"]]
    assert runs[0]["valid_exit_codes"] == [0, 5]
    assert "valid_exit_codes" not in runs[2]


@pytest.mark.gate
def test_packer_accepts_its_template_as_formatted(tmp_path: Path) -> None:
    path = tmp_path / "plan.pkr.hcl"
    for plan in (plan_on("ubuntu24.04"), plan_for("cuda", "debian12"), plan_on("rhel9")):
        path.write_text(packer.render(plan), encoding="utf-8")
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CHECKPOINT_DISABLE": "1"}
        for words in (["validate", "-var", "host=192.0.2.1"], ["fmt", "-check", "-diff"]):
            judged = subprocess.run(
                [tool("packer"), *words, str(path)], capture_output=True, text=True, check=False, env=env
            )
            assert judged.returncode == 0, judged.stdout + judged.stderr


def test_packer_without_a_reboot_runs_the_script_once() -> None:
    text = packer.render(without_verification(plan_for("cuda", "debian12", methods=("runfile",), gpu="L4")))
    provisioners = hcl2.loads(packer.render(plan_of()))["build"][0]["provisioner"]
    assert len(provisioners) == 1
    assert "no-verify" not in text


@pytest.mark.parametrize("os_name", ["ubuntu24.04", "rhel9"])
def test_terraform_has_the_user_data_and_asks_what_it_is_for(os_name: str, update_golden: bool) -> None:
    plan = plan_on(os_name)
    text = terraform.render(plan)
    user_data = embedded(text)
    assert unescaped(user_data) == cloud_init.render(plan)
    compare(
        GOLDEN / os_name / "stack.terraform", plan, text.replace(user_data, "THE USER-DATA\n"), update=update_golden
    )
    read = hcl2.loads(text)
    assert [name.strip('"') for one in read["variable"] for name in one] == [
        "gpustack_system", "gpustack_architecture", "gpustack_limit", "gpustack_compressed",
    ]  # fmt: skip
    # The first two have no default: whoever boots another image has to say so, and is refused.
    assert [("default" in body) for one in read["variable"] for body in one.values()] == [False, False, True, True]
    assert all("precondition" in body for one in read["output"] for body in one.values())


@settings(max_examples=150, deadline=None)
@given(texts)
def test_a_heredoc_holds_any_visible_text(text: str) -> None:
    try:
        written = heredoc(f"{text}\n")
    except UnsupportedError:
        return
    assert unescaped(embedded(written)) == f"{text}\n"
    # No line ends the heredoc early, and nothing begins an interpolation.
    end = written.split("\n")[0].removeprefix("<<")
    assert [line.strip() for line in written.split("\n")[1:]].count(end) == 1
    assert not re.search(r"(?<!\$)\$\{|(?<!%)%\{", embedded(written))


def test_kickstart_is_the_golden_one(update_golden: bool) -> None:
    plan = plan_on("rhel9")
    text = kickstart.render(plan)
    script = "\n".join(f"|{line}" for line in shell.render(plan).removesuffix("\n").split("\n"))
    assert script in text
    compare(GOLDEN / "rhel9/stack.kickstart", plan, text.replace(script, "THE SCRIPT"), update=update_golden)


@pytest.mark.parametrize(("os_name", "version"), [("rhel9", "RHEL9"), ("rhel8", "RHEL8"), ("fedora42", "F42")])
def test_anaconda_reads_the_fragment_and_the_section_writes_the_files(
    os_name: str, version: str, tmp_path: Path
) -> None:
    """pykickstart is Anaconda's own reader; the section runs as the installer runs it, in another folder."""
    plan = plan_for("driver cuda", os_name)
    reader = KickstartParser(makeVersion(version))
    reader.readKickstartFromString(kickstart.render(plan))
    (section,) = reader.handler.scripts
    assert (section.interp, section.errorOnFail, section.inChroot) == ("/bin/sh", True, True)
    body = section.script
    for path in (first_boot.PLAN, first_boot.RUNNER, first_boot.UNIT):
        body = body.replace(path, str(tmp_path / Path(path).name))
    stub(tmp_path, "systemctl", 'echo "$@" >>called')
    done = subprocess.run(
        ["sh", "-c", body], cwd=tmp_path, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=False
    )
    assert done.returncode == 0
    assert (tmp_path / "gpustack-plan").read_text(encoding="utf-8") == shell.render(plan)
    assert (tmp_path / "gpustack-plan").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "called").read_text() == "enable gpustack-first-boot.service\n"
    unit = configparser.ConfigParser()
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(tmp_path / "gpustack-first-boot.service")
    assert unit["Service"]["ExecStart"] == f"/bin/sh {tmp_path / 'gpustack-first-boot'}"
    assert unit["Install"]["WantedBy"] == "multi-user.target"


def stub(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("code", "called", "end", "stays"),
    [
        (0, "disable gpustack-first-boot.service\n", 0, False),
        (5, "reboot\n", 0, True),
        (4, "", 4, True),
        (1, "", 1, True),
    ],
    ids=["done", "reboot", "other-host", "failure"],
)
def test_the_first_boot_goes_on_until_the_plan_is_carried_out(
    code: int, called: str, end: int, stays: bool, tmp_path: Path
) -> None:
    text = first_boot.RUNNER_TEXT
    for path in (first_boot.PLAN, first_boot.RUNNER, first_boot.UNIT):
        text = text.replace(path, str(tmp_path / Path(path).name))
    (tmp_path / "gpustack-plan").write_text(f"exit {code}\n")
    (tmp_path / "gpustack-first-boot").write_text(text)
    stub(tmp_path, "systemctl", f'echo "$@" >>{tmp_path}/called')
    done = subprocess.run(
        ["sh", str(tmp_path / "gpustack-first-boot")], env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=False
    )
    assert done.returncode == end
    told = tmp_path / "called"
    assert (told.read_text() if told.exists() else "") == called
    assert (tmp_path / "gpustack-plan").exists() is stays


def hostile_step(text: str) -> Plan:
    step = Step(id="x", component="cuda", kind="run", title=text, why=text, phase="toolkit", commands=(("echo", text),))
    return plan_of(step, name=text, warnings=(text,))


@settings(max_examples=60, deadline=None)
@given(texts)
def test_no_text_ends_the_section_of_a_kickstart(text: str) -> None:
    plan = hostile_step(text)
    rocky = replace(plan, host=replace(plan.host, os=replace(plan.host.os, id="rocky")))
    reader = KickstartParser(makeVersion("RHEL9"))
    reader.readKickstartFromString(kickstart.render(rocky))
    assert len(reader.handler.scripts) == 1
    assert reader.handler.scripts[0].script.count("\nGPUSTACK_FILE\n") == 3


def test_autoinstall_gives_the_installed_system_the_user_data(update_golden: bool) -> None:
    """The schema of Ubuntu's installer accepted it by hand: docs/images-and-user-data.md."""
    plan = plan_on("ubuntu24.04")
    text = autoinstall.render(plan)
    compare(GOLDEN / "ubuntu24.04/stack.autoinstall", plan, text, update=update_golden)
    assert text.startswith("#cloud-config\n")
    read = yaml.safe_load(text)["autoinstall"]
    assert (read["version"], read["drivers"]) == (1, {"install": False})
    assert read["user-data"] == yaml.safe_load(cloud_init.render(plan))


@pytest.mark.parametrize(
    ("form", "os_name", "hint"),
    [
        ("kickstart", "debian12", "cloud-init"),
        ("kickstart", "ubuntu24.04", "autoinstall"),
        ("autoinstall", "rhel9", "cloud-init"),
        ("autoinstall", "ubuntu18.04", "cloud-init"),
    ],
)
def test_an_installer_that_the_system_does_not_have_is_refused(form: str, os_name: str, hint: str) -> None:
    module = {"kickstart": kickstart, "autoinstall": autoinstall}[form]
    with pytest.raises(UsageError) as caught:
        module.render(plan_for("cuda", os_name))
    assert hint in caught.value.hint


def test_what_a_heredoc_cannot_hold_is_refused() -> None:
    with pytest.raises(GpustackError, match="HCL cannot hold"):
        heredoc("a\x1bb\n")
