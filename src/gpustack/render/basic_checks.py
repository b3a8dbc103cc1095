"""What a form can check on a host without gpustack: the driver answers, and the planned versions are installed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpustack.model.actions import InstallPackages, Verify
from gpustack.model.conditions import Condition, conditions
from gpustack.model.plan import Plan
from gpustack.model.steps import Step
from gpustack.plan.former import actions_of
from gpustack.plan.managers.base import CACHE
from gpustack.visible import is_visible, one_line

UNPROVEN = "not proven: that anything runs on a GPU; gpustack itself checks that"
NOTHING = "nothing could be checked without gpustack: install it, or render the plan with --no-verify"

_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
_COMPILERS = ("cuda-toolkit", "cuda-compiler", "cuda-nvcc", "nvidia-cuda-toolkit")


class Check(NamedTuple):
    """One check of a component: the driver's version, the compiler's release, or a condition of a step."""

    component: str
    driver: str = ""
    compiler: str = ""
    condition: Condition | None = None

    @property
    def title(self) -> str:
        """What is checked, for people."""
        if self.driver:
            return f"driver {self.driver} answers for every GPU"
        if self.compiler:
            return f"the compiler of CUDA {self.compiler} answers"
        return one_line(f"{self.component}: {' '.join(self.condition.words if self.condition else ())}")


def basic_checks(plan: Plan, components: Iterable[str]) -> list[Check]:
    """The checks of these components in their order; a component without any is not among them."""
    return list(dict.fromkeys(check for name in components for check in _of(plan, name)))


def verified_by(step: Step) -> tuple[str, ...]:
    """The components that the step verifies, () if it does something else."""
    names = [name for action in actions_of(step) if isinstance(action, Verify) for name in action.components]
    return tuple(dict.fromkeys(names))


def _of(plan: Plan, name: str) -> Iterator[Check]:
    entry = plan.stack.get(name)
    if entry is None or not _VERSION.fullmatch(entry.version):
        return
    if name == "driver":
        yield Check(name, driver=entry.version)
    if name == "cuda" and _has_compiler(plan):
        release = ".".join(entry.version.split(".")[:2])
        yield Check(name, compiler=release)
    for step in plan.steps:
        if step.component == name and step.phase != "prerequisites":
            for one in conditions(step.done_when):
                if _shows_version(one):
                    yield Check(name, condition=one)


def _shows_version(one: Condition) -> bool:
    """Whether the condition holds only where this version is installed."""
    if not all(map(is_visible, one.words)):
        return False
    if one.kind == "package":
        return len(one.words) > 1
    return one.kind == "path" and not one.words[0].startswith(f"{CACHE}/")


def _has_compiler(plan: Plan) -> bool:
    """Whether the plan installs nvcc."""
    names = [
        package.name
        for step in plan.steps
        for action in actions_of(step)
        if isinstance(action, InstallPackages)
        for package in action.packages
    ]
    return plan.stack["cuda"].method in {"runfile", "tar", "zip"} or any(name.startswith(_COMPILERS) for name in names)
