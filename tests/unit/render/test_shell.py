"""The rendered script, run by a real shell with the system's own tools replaced by recording ones."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.plan.making import host, plan

from gpustack.model.host import OperatingSystem
from gpustack.model.plan import Plan, StackEntry
from gpustack.model.steps import Artifact, FileWrite, Step
from gpustack.plan.managers.base import CACHE
from gpustack.render.api import without_verification
from gpustack.render.shell import render
from gpustack.render.target import target_of


def step(number: int, **fields: object) -> Step:
    values = {"id": f"s-{number:012}", "component": "", "kind": "run", "title": f"step {number}", "why": "because"}
    return Step(**{**values, "phase": "toolkit", **fields})  # type: ignore[arg-type]


SHELLS = (("dash",), pytest.param(("busybox", "sh"), marks=pytest.mark.gate))


def run(
    script: str, folder: Path, *args: str, shell: tuple[str, ...] = ("sh",), only: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a script with ``folder``/bin before the path; the script asks for no root there, since ``id`` says 0.

    With ``only`` no other program is found.
    """
    path = folder / "plan.sh"
    path.write_text(script.replace("/var/lib/gpustack", str(folder / "state")), encoding="utf-8")
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    _tool(tools / "id", "echo 0")
    environment = {"PATH": str(tools) if only else f"{tools}:{os.environ['PATH']}", "HOME": str(folder)}
    command = [str(shutil.which(shell[0])), *shell[1:], str(path), *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)


def _tool(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


def here() -> OperatingSystem:
    """The system that runs the tests, so that a script accepts it."""
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return replace(host().os, id=release["ID"].strip('"'), version_id=release.get("VERSION_ID", "").strip('"'))


def made_of(*steps: Step, **fields: object) -> Plan:
    machine = replace(host(), os=here(), arch=os.uname().machine)
    return replace(plan(host()), host=machine, steps=steps, **fields)


@pytest.mark.parametrize(
    "word", ["$(touch bad)", "`touch bad`", "; touch bad", "a b", "'", '"', "\\", "*", "~", "-n", "\n"]
)
def test_every_word_reaches_its_command_unchanged(word: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(render(made_of(step(1, commands=(("sh", "-c", f'printf %s "$1" >{out}', "sh", word),)))), tmp_path)
    assert done.returncode == 0, done.stderr
    assert out.read_text(encoding="utf-8") == word
    assert not (tmp_path / "bad").exists()


@pytest.mark.parametrize("content", ["$HOME `id`\n", "GPUSTACK_END\n", "no line break at the end", "a\\b\n\n'x'\n", ""])
def test_files_are_written_as_they_are(content: str, tmp_path: Path) -> None:
    target = tmp_path / "etc" / "file"
    made = made_of(step(1, files=(FileWrite(path=str(target), content=content, mode="0600"),)))
    assert run(render(made), tmp_path).returncode == 0
    assert target.read_text(encoding="utf-8") == content
    assert target.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_a_dry_run_changes_nothing_and_shows_commands_as_they_can_be_typed(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    target = tmp_path / "file"
    argv = ("printf", "%s|", "it's", "$(id)", "", "a\n")
    made = made_of(step(1, files=(FileWrite(path=str(target), content="x"),), commands=(argv,)))
    done = run(render(made), tmp_path, "--dry-run", shell=shell)
    assert done.returncode == 0
    assert "would change something: 1 of 1 steps" in done.stderr
    assert not target.exists()
    assert not (tmp_path / "state").exists()
    shown = done.stdout.partition("+ printf")[2]
    typed = subprocess.run(["sh", "-c", f"printf{shown}"], capture_output=True, text=True, check=True)
    assert typed.stdout == "it's|$(id)||a\n|"


def test_the_first_failure_stops_the_script(tmp_path: Path) -> None:
    made = made_of(step(1, commands=(("false",),)), step(2, commands=(("touch", str(tmp_path / "second")),)))
    done = run(render(made), tmp_path)
    assert done.returncode == 1
    assert "stopped in: step 1. Fix the error above" in done.stderr
    assert not (tmp_path / "second").exists()


def test_a_wrong_byte_in_a_download_stops_the_script(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "archive"
    tools = tmp_path / "bin"
    tools.mkdir()
    _tool(tools / "curl", 'while [ "$1" != --output ]; do shift; done; printf wrong >"$2"')
    artifact = Artifact(url="https://example.org/archive", path=str(path), sha256="0" * 64)
    done = run(render(made_of(step(1, artifacts=(artifact,)))), tmp_path)
    assert done.returncode == 1
    assert "sha256 differs" in done.stderr
    assert not path.exists()


def recorded(folder: Path) -> list[str]:
    """What the commands of ``noted`` have left, in order."""
    path = folder / "notes"
    return path.read_text(encoding="utf-8").split() if path.exists() else []


def noted(folder: Path, word: str) -> tuple[str, ...]:
    """A command that leaves a word."""
    return ("sh", "-c", 'echo "$1" >>"$2"', "sh", word, str(folder / "notes"))


def with_reboot(folder: Path) -> Plan:
    return made_of(
        step(1, phase="driver", commands=(noted(folder, "first"),)),
        step(2, kind="reboot", phase="reboot", reboot_after=True, depends_on=("s-000000000001",), commands=(("x",),)),
        step(3, commands=(noted(folder, "second"),)),
    )


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_the_script_waits_for_the_reboot_goes_on_after_it_and_asks_for_no_other(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    script = render(with_reboot(tmp_path)).replace("/proc/sys/kernel/random/boot_id", str(tmp_path / "boot_id"))
    script = script.replace("/sys/module/nvidia/version", str(tmp_path / "module"))
    (tmp_path / "boot_id").write_text("one\n", encoding="utf-8")
    for _ in range(2):
        stopped = run(script, tmp_path, shell=shell)
        assert stopped.returncode == 5, stopped.stderr
        assert "reboot now, then start this script again" in stopped.stderr
        assert recorded(tmp_path) == ["first"]
    (tmp_path / "boot_id").write_text("two\n", encoding="utf-8")
    assert run(script, tmp_path, shell=shell).returncode == 0
    assert recorded(tmp_path) == ["first", "second"]
    again = run(script, tmp_path, shell=shell)
    assert again.returncode == 0
    assert "nothing to change: everything is as planned" in again.stderr
    assert recorded(tmp_path) == ["first", "second"]


def test_a_loaded_module_of_another_version_asks_for_a_reboot(tmp_path: Path) -> None:
    made = replace(with_reboot(tmp_path), stack={"driver": StackEntry(version="2.0", method="network", reason="")})
    script = render(made).replace("/sys/module/nvidia/version", str(tmp_path / "module"))
    (tmp_path / "boot_id").write_text("one\n", encoding="utf-8")
    script = script.replace("/proc/sys/kernel/random/boot_id", str(tmp_path / "boot_id"))
    assert run(script, tmp_path).returncode == 5
    (tmp_path / "boot_id").write_text("two\n", encoding="utf-8")
    (tmp_path / "module").write_text("2.0\n", encoding="utf-8")
    assert run(script, tmp_path).returncode == 0
    (tmp_path / "module").write_text("1.0\n", encoding="utf-8")
    assert run(script, tmp_path).returncode == 5


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_a_second_run_changes_nothing_and_says_so(shell: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "etc" / "file"
    made = made_of(
        step(1, files=(FileWrite(path=str(file), content="x\n"),)),
        step(2, kind="make-link", commands=(("ln", "-sfn", "file", str(tmp_path / "link")),)),
        step(3, commands=(noted(tmp_path, "built"),)),
    )
    first = run(render(made), tmp_path, shell=shell)
    assert "done: 3 of 3 steps changed something" in first.stderr
    times = {path: path.lstat().st_mtime_ns for path in (file, tmp_path / "link", tmp_path / "notes")}
    second = run(render(made), tmp_path, shell=shell)
    assert (second.returncode, second.stdout) == (0, "")
    assert second.stderr.count("is as planned") == 4
    assert "nothing to change: everything is as planned" in second.stderr
    assert times == {path: path.lstat().st_mtime_ns for path in times}


def test_a_run_that_failed_goes_on_where_it_stopped(tmp_path: Path) -> None:
    made = made_of(
        step(1, commands=(noted(tmp_path, "one"),)),
        step(2, commands=(("test", "-e", str(tmp_path / "mended")), noted(tmp_path, "two"))),
        step(3, commands=(noted(tmp_path, "three"),)),
    )
    assert run(render(made), tmp_path).returncode == 1
    (tmp_path / "mended").touch()
    assert run(render(made), tmp_path).returncode == 0
    assert recorded(tmp_path) == ["one", "two", "three"]


def test_what_rests_on_a_step_is_done_again_when_that_step_changes_something(tmp_path: Path) -> None:
    file = tmp_path / "file"
    made = made_of(
        step(1, files=(FileWrite(path=str(file), content="x\n"),)),
        step(2, kind="rebuild-initramfs", depends_on=("s-000000000001",), commands=(noted(tmp_path, "image"),)),
        step(3, commands=(noted(tmp_path, "other"),)),
    )
    assert run(render(made), tmp_path).returncode == 0
    file.write_text("changed by hand\n", encoding="utf-8")
    assert "done: 2 of 3 steps changed something" in run(render(made), tmp_path).stderr
    assert recorded(tmp_path) == ["image", "other", "image"]
    assert file.read_text(encoding="utf-8") == "x\n"


def test_marks_of_another_plan_are_forgotten_once_something_changes(tmp_path: Path) -> None:
    one, other = (made_of(step(1, commands=(noted(tmp_path, word),))) for word in ("one", "other"))
    for made in (one, replace(other, digest="1" * 64), one):
        assert run(render(made), tmp_path).returncode == 0
    assert recorded(tmp_path) == ["one", "other", "one"]


def test_an_index_is_read_and_a_file_fetched_only_for_a_step_that_is_not_done(tmp_path: Path) -> None:
    there = tmp_path / "there"
    fetched = f"{CACHE}/gpustack-tests/none"
    made = made_of(
        step(1, kind="refresh-index", commands=(("false",),)),
        step(2, kind="download", artifacts=(Artifact(url="https://example.org/a", path=fetched, sha256="0" * 64),)),
        step(3, depends_on=("s-000000000001", "s-000000000002"), done_when=f"path {there}", commands=(("false",),)),
    )
    assert run(render(made), tmp_path).returncode == 1
    there.touch()
    done = run(render(made), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "nothing to change" in done.stderr


@pytest.mark.parametrize("program", ["sha256sum", "openssl"])
def test_a_sum_is_checked_with_what_the_system_has(program: str, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("cat", "chmod", "dirname", "mkdir", "mv", "rm", "sh", "uname", program):
        (tools / name).symlink_to(str(shutil.which(name)))
    right, wrong = tmp_path / "back\\slash", tmp_path / "wrong"
    for path in (right, wrong):
        path.write_text("x", encoding="utf-8")
    good = hashlib.sha256(b"x").hexdigest()
    steps = [
        step(number, done_when=f"file {path} {wanted}", commands=(noted(tmp_path, path.name),))
        for number, (path, wanted) in enumerate(((right, good), (wrong, "0" * 64)), 1)
    ]
    done = run(render(made_of(*steps)), tmp_path, only=True)
    assert done.returncode == 0, done.stderr
    assert recorded(tmp_path) == ["wrong"]


def test_a_step_that_is_done_is_not_repeated(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("", encoding="utf-8")
    made = made_of(step(1, done_when=f"path {there}", commands=(("touch", str(tmp_path / "again")),)))
    assert "is as planned" in run(render(made), tmp_path).stderr
    assert not (tmp_path / "again").exists()


def test_a_manual_step_is_told_and_not_run(tmp_path: Path) -> None:
    made = made_of(step(1, kind="manual", commands=(("touch", str(tmp_path / "by-hand")),)))
    assert "by hand: because" in run(render(made), tmp_path).stderr
    assert not (tmp_path / "by-hand").exists()


OTHERS = {
    "system": {"id": "ubuntu", "version_id": "24.04"},
    "version": {"version_id": "99"},
    "architecture": {},
}


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
@pytest.mark.parametrize("other", OTHERS)
def test_a_host_that_the_plan_is_not_for_is_refused_before_anything_changes(
    other: str, shell: tuple[str, ...], tmp_path: Path
) -> None:
    made = made_of(step(1, commands=(("touch", str(tmp_path / "changed")),)))
    os_of = replace(made.host.os, **OTHERS[other])
    arch = "riscv64" if other == "architecture" else made.host.arch
    made = replace(made, host=replace(made.host, os=os_of, arch=arch))
    for options in ((), ("--dry-run",)):
        done = run(render(made), tmp_path, *options, shell=shell)
        assert done.returncode == 4
        assert done.stderr.startswith("error: this plan is for ")
        assert done.stderr.rstrip().endswith(": nothing was changed")
        assert not (tmp_path / "changed").exists()
        assert not (tmp_path / "state").exists()


def test_a_point_release_of_an_rpm_system_is_the_same_host() -> None:
    targets = {name: target_of(plan(host(name)))[:2] for name in ("rhel9.4", "rocky9", "sles15.6", "ubuntu24.04")}
    assert targets == {
        "rhel9.4": ("rhel", "9"),
        "rocky9": ("rocky", "9"),
        "sles15.6": ("sles", "15.6"),
        "ubuntu24.04": ("ubuntu", "24.04"),
    }
    assert target_of(plan(host("wsl-ubuntu24.04")))[:2] == ("ubuntu", "24.04")
    assert target_of(plan(host("centos6")))[:2] == ("", "")


VERIFY = step(9, phase="verification", commands=(("gpustack", "verify", "driver"),))


def checked(component: str, answer: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """A script that ends with a verification, on a host without gpustack; a stand-in for nvidia-smi gives the answer."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    for name in ("cat", "grep", "mkdir", "rm", "uname"):
        _tool(tools / name, f'exec {shutil.which(name)} "$@"')
    _tool(tools / "nvidia-smi", answer)
    last = replace(VERIFY, commands=(("gpustack", "verify", component),))
    entry = StackEntry(version="580.95.05", method="network", reason="")
    return run(render(made_of(last, stack={component: entry})), folder, *options, only=True)


def test_without_gpustack_the_driver_is_asked_for_its_version_on_every_gpu(tmp_path: Path) -> None:
    good = checked("driver", "echo 580.95.05; echo 580.95.05", tmp_path)
    assert good.returncode == 0, good.stderr
    assert "passed: driver 580.95.05 answers for every GPU" in good.stderr
    assert "not proven: that anything runs on a GPU" in good.stderr
    for answer in ("exit 9", "echo 580.95.05; echo 570.1", ":"):
        bad = checked("driver", answer, tmp_path)
        assert bad.returncode == 1
        assert "FAILED: driver 580.95.05 answers for every GPU" in bad.stderr
        assert "error: 1 of the checks failed" in bad.stderr
    assert "would check: driver 580.95.05" in checked("driver", "exit 9", tmp_path, "--dry-run").stderr


def test_where_nothing_can_be_checked_the_script_fails(tmp_path: Path) -> None:
    done = checked("triton", "exit 9", tmp_path)
    assert done.returncode == 1
    assert "nothing could be checked without gpustack" in done.stderr
    assert checked("triton", "exit 9", tmp_path, "--dry-run").returncode == 0


def test_a_script_may_be_made_without_its_verification(tmp_path: Path) -> None:
    done = run(render(without_verification(made_of(step(1, commands=(("true",),)), VERIFY))), tmp_path)
    assert done.returncode == 0
    assert "verify" not in done.stderr
