"""Quick checks of frameworks: found, and compatible with driver, GPU and its neighbours, without importing it."""

from __future__ import annotations

from functools import partial

from gpustack.model.facts import CHECKED_FRAMEWORKS
from gpustack.model.host import Problem
from gpustack.verify.declare import Context, Outcome, check, failed, passed
from gpustack.verify.frameworks.places import TITLES, absent, having, versions_of


def _found(context: Context, component: str) -> Outcome:
    environments = having(context, component)
    if not environments:
        return absent(component)
    told = (
        f"{', '.join(f'{name} {version}' for name, version in versions_of(one, component).items())} in {one.path}"
        for one in environments
    )
    return passed("; ".join(told))


def _fits(context: Context, component: str) -> Outcome:
    """What `detect` finds wrong in the environment that is checked."""
    environments = having(context, component)
    if not environments:
        return absent(component)
    problems = [one for one in environments[0].problems if _is_about(one, component)]
    problems += [one for one in context.host.problems if _is_before(one, environments[0].path)]
    worst = next((one for one in problems if one.severity != "info"), None)
    if worst is not None:
        return failed(worst.message, worst.fix)
    return passed(
        "; ".join(one.message for one in problems) or f"nothing in {environments[0].path} is wrong by its files"
    )


def _is_before(problem: Problem, path: str) -> bool:
    """Whether the loader takes another copy of a library than the environment's own, which it has in a wheel."""
    return problem.id in {"detect-cudnn-copies", "detect-nccl-copies"} and (
        problem.severity != "info" and f"{path}/" in problem.message
    )


def _is_about(problem: Problem, component: str) -> bool:
    """Whether a problem of an environment concerns a framework: its own, or one of the libraries that all share."""
    others = [word for name, title in TITLES.items() if name != component for word in (title, name)]
    return not problem.message.startswith(tuple(f"{word} " for word in others))


for _name in CHECKED_FRAMEWORKS:
    check(
        f"{_name}.found",
        title=f"{TITLES[_name]} found",
        expects=f"A Python environment contains {TITLES[_name]}.",
        fix="`gpustack detect` lists what is wrong in each environment.",
    )(partial(_found, component=_name))
    check(
        f"{_name}.fit",
        title=f"{TITLES[_name]} fits driver, GPU and its neighbours",
        expects="Its build, the GPU code inside it and the versions next to it suit this host.",
        fix="`gpustack detect` lists what is wrong in each environment.",
        needs=(f"{_name}.found",),
    )(partial(_fits, component=_name))
