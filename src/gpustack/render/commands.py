"""A step as what a shell would run: the same for every format that shows or runs commands."""

from __future__ import annotations

import shlex

from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, Step


def command_line(argv: tuple[str, ...]) -> str:
    """One command, quoted for a POSIX shell."""
    return shlex.join(argv)


def fetch(artifact: Artifact) -> tuple[tuple[str, ...], ...]:
    """The commands that download an artifact over https and check it where its sum is known."""
    folder = artifact.path.rpartition("/")[0]
    get = ("curl", "--fail", "--location", "--proto", "=https", "--retry", "3", "--output", artifact.path, artifact.url)
    return (("mkdir", "-p", "--", folder), get)


def is_manual(step: Step) -> bool:
    """Whether a person has to carry the step out: its commands ask questions."""
    return step.kind == "manual"


def changes(step: Step) -> bool:
    """Whether the step does anything at all."""
    return bool(step.commands or step.files or step.artifacts)


def serves_reboot(plan: Plan) -> frozenset[str]:
    """The ids of the steps whose changes are in use only after the plan's reboot."""
    by_id = {step.id: step for step in plan.steps}
    waiting = [name for step in plan.steps if step.reboot_after for name in step.depends_on]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in by_id and name not in found:
            found.add(name)
            waiting += by_id[name].depends_on
    # A service that starts at boot does not ask for one.
    return frozenset(
        name
        for name in found
        if by_id[name].phase == "driver" and by_id[name].kind != "enable-service" and changes(by_id[name])
    )


def one_line(text: str) -> str:
    """``text`` without line breaks and control characters, so that it can stand in a comment or a table."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
