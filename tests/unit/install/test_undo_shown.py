"""What a dry run says of the undo is what a rollback does."""

from __future__ import annotations

import shlex

from tests.unit.plan.making import CUDA, CUDNN, DRIVER, host, plan

from gpustack.install.options import Options
from gpustack.install.run.dry_run import show
from gpustack.model import actions as do


def shown() -> list[list[str]]:
    """The commands that a dry run lists under the undo."""
    made = plan(host(secure_boot=True), DRIVER, CUDA, CUDNN)
    undo = show(made, Options()).partition("To undo it")[2].partition("\nReboot")[0]
    return [shlex.split(line.partition(" $ ")[2]) for line in undo.splitlines() if " $ " in line]


def test_only_commands_that_a_rollback_runs_are_shown() -> None:
    assert ["systemctl", "disable", "nvidia-persistenced.service"] in shown()
    assert not [argv for argv in shown() if {"apt-get", "apt-mark", "rm", "mokutil"}.intersection(argv)]


def test_what_a_person_did_is_named() -> None:
    text = show(plan(host(secure_boot=True), DRIVER, CUDA, CUDNN), Options())
    assert "enrol the key that signs the driver's modules: what is done by hand" in text


def test_the_plan_itself_says_how_a_person_would_undo_it() -> None:
    made = plan(host(), DRIVER, CUDA, CUDNN)
    assert any(isinstance(one, do.RemovePackages) for step in made.steps for one in step.undo_actions or ())
