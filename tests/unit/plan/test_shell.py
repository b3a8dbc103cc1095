"""The rendered script, run by a real shell with the system's own tools replaced by recording ones."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.plan.making import host, plan

from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, FileWrite, Step
from gpustack.render.shell import render


def step(number: int, **fields: object) -> Step:
    values = {"id": f"s-{number:012}", "component": "", "kind": "run", "title": f"step {number}", "why": "because"}
    return Step(**{**values, "phase": "toolkit", **fields})  # type: ignore[arg-type]


def run(script: str, folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a script with ``folder``/bin before the path; the script asks for no root there, since ``id`` says 0."""
    path = folder / "plan.sh"
    path.write_text(script.replace("/var/lib/gpustack", str(folder / "state")), encoding="utf-8")
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    _tool(tools / "id", "echo 0")
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(folder)}
    command = ["sh", str(path), *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)


def _tool(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


def made_of(*steps: Step) -> Plan:
    return replace(plan(host()), steps=steps)


@pytest.mark.parametrize(
    "word", ["$(touch bad)", "`touch bad`", "; touch bad", "a b", "'", '"', "\\", "*", "~", "-n", "\n"]
)
def test_every_word_reaches_its_command_unchanged(word: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(render(made_of(step(1, commands=(("sh", "-c", f'printf %s "$1" >{out}', "sh", word),)))), tmp_path)
    assert done.returncode == 0, done.stderr
    assert out.read_text(encoding="utf-8") == word
    assert not (tmp_path / "bad").exists()


@pytest.mark.parametrize("content", ["$HOME `id`\n", "GPUSTACK_END\n", "no line break at the end", "a\\b\n\n'x'\n"])
def test_files_are_written_as_they_are(content: str, tmp_path: Path) -> None:
    target = tmp_path / "etc" / "file"
    made = made_of(step(1, files=(FileWrite(path=str(target), content=content, mode="0600"),)))
    assert run(render(made), tmp_path).returncode == 0
    assert target.read_text(encoding="utf-8") == (content if content.endswith("\n") else content + "\n")
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "file"
    made = made_of(step(1, files=(FileWrite(path=str(target), content="x"),), commands=(("touch", str(target)),)))
    done = run(render(made), tmp_path, "--dry-run")
    assert done.returncode == 0
    assert f"+ touch {target}" in done.stdout
    assert not target.exists()


def test_the_first_failure_stops_the_script(tmp_path: Path) -> None:
    made = made_of(step(1, commands=(("false",),)), step(2, commands=(("touch", str(tmp_path / "second")),)))
    assert run(render(made), tmp_path).returncode != 0
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


def test_the_script_waits_for_the_reboot_and_goes_on_after_it(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    steps = (
        step(1, commands=(("touch", str(first)),)),
        step(2, kind="reboot", reboot_after=True, commands=(("systemctl", "reboot"),)),
        step(3, commands=(("touch", str(second)),)),
    )
    script = render(made_of(*steps))
    stopped = run(script, tmp_path)
    assert stopped.returncode == 5
    assert first.exists()
    assert not second.exists()
    assert run(script, tmp_path).returncode == 5
    state = next((tmp_path / "state").iterdir())
    state.write_text("another boot\n", encoding="utf-8")
    first.unlink()
    assert run(script, tmp_path).returncode == 0
    assert second.exists()
    assert not first.exists()
    assert not state.exists()


def test_a_step_that_is_done_is_not_repeated(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("", encoding="utf-8")
    made = made_of(step(1, done_when=f"path {there}", commands=(("touch", str(tmp_path / "again")),)))
    assert "done already" in run(render(made), tmp_path).stderr
    assert not (tmp_path / "again").exists()


def test_a_manual_step_is_told_and_not_run(tmp_path: Path) -> None:
    made = made_of(step(1, kind="manual", commands=(("touch", str(tmp_path / "by-hand")),)))
    assert "by hand: because" in run(render(made), tmp_path).stderr
    assert not (tmp_path / "by-hand").exists()
