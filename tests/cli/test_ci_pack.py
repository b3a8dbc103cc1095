"""The pack for CI: the action's own steps, templates before the schemas of their services, and the commands in them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import tree_sitter
import tree_sitter_groovy
import yaml
from pre_commit.clientlib import load_manifest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/ci"


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("action.yml", "vendor.github-actions"),
        ("examples/ci/github.yml", "vendor.github-workflows"),
        ("examples/ci/gitlab.yml", "vendor.gitlab-ci"),
    ],
)
def test_templates_hold_to_the_schemas_of_their_services(path: str, schema: str) -> None:
    judge = Path(sys.executable).parent / "check-jsonschema"
    done = subprocess.run(
        [str(judge), "--builtin-schema", schema, str(ROOT / path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_jenkins_gets_groovy() -> None:
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_groovy.language()))
    assert not parser.parse((EXAMPLES / "Jenkinsfile").read_bytes()).root_node.has_error


def environment(folder: Path, **inputs: str) -> dict[str, str]:
    """What a runner of GitHub sets for the steps of an action."""
    program = folder / "temp/gpustack/bin/gpustack"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gpustack "$@"\n')
    program.chmod(0o755)
    (folder / "output").touch()
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    values = {name: one["default"] for name, one in action["inputs"].items()} | inputs
    assert set(inputs) <= set(action["inputs"])
    found = {
        "PATH": os.environ["PATH"],
        "RUNNER_TEMP": str(folder / "temp"),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
    }
    for step in action["runs"]["steps"]:
        for name, value in step["env"].items():
            found[name] = re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda one: values[one[1]], value)
    return found


def steps(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the steps as a runner does: `sh -e` with a file of the step's lines, the first failure ends them."""
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    env = environment(folder, **inputs)
    for step in action["runs"]["steps"]:
        assert "${{" not in step["run"]  # no input is ever a part of a script
        (folder / "step.sh").write_text(step["run"])
        done = subprocess.run(
            ["sh", "-e", str(folder / "step.sh")], cwd=folder, env=env, capture_output=True, text=True, check=False
        )
        if done.returncode:
            break
    return done


def test_a_runner_without_a_gpu_is_red(tmp_path: Path) -> None:
    done = steps(tmp_path, level="quick")
    assert done.returncode == 1, done.stderr
    assert (tmp_path / "output").read_text() == "exit-code=1\n"
    assert sorted(path.name for path in (tmp_path / "gpustack-reports").iterdir()) == [
        "gpustack.html", "gpustack.json", "gpustack.sarif", "gpustack.xml",
    ]  # fmt: skip
    assert done.stdout.count("\n::error ") + done.stdout.startswith("::error ") >= 1
    assert "::notice title=gpustack verify::" in done.stdout
    assert (tmp_path / "summary.md").read_text().startswith("## gpustack verify\n")


def test_the_inputs_are_words_and_never_a_script(tmp_path: Path) -> None:
    hostile = "$(touch made) `touch made` ; touch made * --help"
    done = steps(tmp_path, components=hostile, level="quick", require="", reports="a b; touch made")
    assert done.returncode == 2
    assert "is not a component" in done.stderr or "unknown" in done.stderr
    assert not (tmp_path / "made").exists()
    assert (tmp_path / "output").read_text() == "exit-code=2\n"


def test_what_the_action_does_not_require_may_be_skipped(tmp_path: Path) -> None:
    done = steps(tmp_path, level="quick", require="")
    assert done.returncode == 0, done.stdout
    assert "not proven: that anything runs on a GPU: this host has none" in done.stdout


@pytest.mark.slow
def test_the_action_installs_gpustack(tmp_path: Path) -> None:
    """As a runner does: an environment of its own, with the packages from the index."""
    env = environment(tmp_path, python=sys.executable)
    (tmp_path / "temp/gpustack/bin/gpustack").unlink()
    subprocess.run(["sh", str(ROOT / "ci/action.sh"), "install"], env=env, check=True)
    done = subprocess.run(
        [str(tmp_path / "temp/gpustack/bin/gpustack"), "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout


def test_a_python_that_is_too_old_is_named(tmp_path: Path) -> None:
    env = environment(tmp_path, python="false")
    (tmp_path / "temp/gpustack/bin/gpustack").unlink()
    done = subprocess.run(
        ["sh", str(ROOT / "ci/action.sh"), "install"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stdout.startswith("::error title=gpustack::false is missing or older than Python 3.10")


COMMANDS = {
    path.name: re.findall(r"gpustack (verify [^'\n]+)", path.read_text(encoding="utf-8"))
    for path in sorted(EXAMPLES.iterdir())
}


@pytest.mark.parametrize("name", [name for name, found in COMMANDS.items() if found])
def test_every_command_of_the_examples_runs(name: str, tmp_path: Path) -> None:
    """Here no GPU is found, which they all call a failure, and the reports are written."""
    for line in COMMANDS[name]:
        words = shlex.split(line.replace("$GPUSTACK_LEVEL", "smoke").replace("/var/lib/node_exporter", str(tmp_path)))
        words[words.index("--level") + 1] = "quick"
        done = subprocess.run(
            [sys.executable, "-m", "gpustack", *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1, done.stderr
        assert " checks: " in done.stdout
    assert list(tmp_path.glob("gpustack.*"))


def test_the_hooks_of_pre_commit_are_commands_that_exist(tmp_path: Path) -> None:
    (tmp_path / "gpustack.toml").write_text('[stack]\ncuda = "12.*"\n')
    (tmp_path / "Dockerfile").write_text("FROM nvidia/cuda:12.8.1-runtime-ubuntu22.04\n")
    host = ["--os", "ubuntu22.04", "--gpu", "L4", "--driver", "580.95.05"]
    own = {"gpustack-plan": host, "gpustack-image": ["--image", "Dockerfile", *host]}
    hooks = load_manifest(str(ROOT / ".pre-commit-hooks.yaml"))
    assert {hook["id"] for hook in hooks} == set(own)
    for hook in hooks:
        assert not hook["pass_filenames"]
        program, *words = shlex.split(hook["entry"])
        assert program == "gpustack"
        done = subprocess.run(
            [sys.executable, "-m", "gpustack", *words, *own[hook["id"]]],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
