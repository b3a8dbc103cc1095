"""How a step is known to be done: the words of the conditions, and that every step which can have one has one."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest
from tests.golden_plans import cases, outcome

from gpustack.model.actions import DisableRepository
from gpustack.model.conditions import Condition, conditions, spell
from gpustack.model.host import RepositoryEntry
from gpustack.model.steps import Step
from gpustack.plan.managers.apt import MANAGER

EACH_TIME = frozenset({"note", "manual", "reboot", "refresh-index", "rebuild-initramfs"})
"""Kinds of steps that are done each time: they change nothing, or have to see what was changed just now."""

ALWAYS = (
    "verify",
    "mnistcudnn",
    "triton-ready",
    "cross-sample",
    "docker-restart",
    "links-",
    "enable-",
    "mend-",
    # rpm's managers keep locks in files of their own, whose form differs by version; to add one twice does no harm.
    "hold-",
    "driver-lock",
    "driver-unlock",
    # Nothing is published of these that a copy on the disk could be compared with.
    "key-file-",
    "archive-",
    "venv-pip-",
)


@pytest.mark.parametrize(
    "one",
    [
        Condition("package", ("libcudnn8", "8.9.6.50-1+cuda12.2")),
        Condition("package", ("zlib1g",)),
        Condition("absent", ("nvidia-open",)),
        Condition("held", ("libcudnn8",)),
        Condition("file", ("C:\\Program Files\\x y", "ab" * 32)),
        Condition("path", ("/opt/with a space",)),
        Condition("link", ("/usr/local/cuda", "/usr/local/cuda-13.0")),
        Condition("succeeds", ("sh", "-c", "test \"$1\" = 'a b'", "sh", "a b")),
    ],
)
def test_a_condition_is_read_as_it_was_written(one: Condition) -> None:
    assert conditions(spell(one)) == (one,)
    other = Condition("path", ("/x",))
    assert conditions(spell(one, other)) == (one, other)


def test_what_cannot_be_read_is_never_done() -> None:
    assert conditions("never") == ()
    assert conditions("package") == ()
    assert conditions("path /x\nnonsense") == ()
    assert spell(Condition("path", ("/a\nb",))) == "never"
    assert spell() == "never"


SYSTEMS = ("amzn2023", "azurelinux3.0", "debian12", "fedora44", "l4t36", "rhel7", "rhel9", "sles15.7", "ubuntu18.04")
SYSTEMS += ("ubuntu24.04", "windows11", "wsl-ubuntu24.04")
"""A system of every package family, and those with the most methods."""


@cache
def steps() -> tuple[tuple[str, Step], ...]:
    """The steps of the golden plans of these systems, each with where it stands."""
    plans = [(name, case.name, outcome(case).plan) for name in SYSTEMS for case in cases()[name]]
    return tuple(
        (f"{name}/{case}: {step.id}", step) for name, case, plan in plans if plan is not None for step in plan.steps
    )


@pytest.mark.gate
def test_every_step_says_how_it_is_taken_back_or_why_not() -> None:
    assert len(steps()) > 500
    assert [where for where, step in steps() if not step.undo and not step.undo_note] == []


@pytest.mark.gate
def test_every_step_that_can_be_known_to_be_done_says_how() -> None:
    never = [
        where
        for where, step in steps()
        if not conditions(step.done_when)
        and step.kind not in EACH_TIME
        and not step.id.startswith(ALWAYS)
        and not where.startswith("windows")
        # The loader's cache is read anew each time: that libraries are in it does not say that they are these.
        and step.commands != (("ldconfig",),)
    ]
    assert never == []


def test_conditions_hold_in_a_shell_as_they_are_meant(tmp_path: Path) -> None:
    """The commands of conditions only look, and end with 0 where what they ask for is there."""
    listed, named = tmp_path / "cuda.list", "https://developer.download.nvidia.com/compute/cuda/repos/x"
    listed.write_text(f"deb [signed-by=/k] {named}/ /\n", encoding="utf-8")
    entry = RepositoryEntry(path=str(listed), url=f"{named}/")
    [look] = conditions(MANAGER.is_disabled(entry))
    assert subprocess.run(look.words, check=False).returncode == 1
    for argv in MANAGER.commands(DisableRepository(manager="apt", path=entry.path, url=entry.url)):
        subprocess.run(argv, check=True)
    assert subprocess.run(look.words, check=False).returncode == 0
