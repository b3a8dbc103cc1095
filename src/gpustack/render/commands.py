"""A step as shell commands: the same for every format that shows or runs commands."""

from __future__ import annotations

import re
import shlex

from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, Step
from gpustack.visible import is_visible


def command_line(argv: tuple[str, ...]) -> str:
    """One command, quoted for a POSIX shell; a word with invisible characters is spelled out for printf."""
    return " ".join(map(quoted, argv))


def quoted(word: str) -> str:
    """One word for a POSIX shell, exact and with every character visible; line breaks stay."""
    if is_visible(word.replace("\n", "")):
        return shlex.quote(word)
    # A shell strips the final line breaks of command output.
    body = word.rstrip("\n")
    ends = word[len(body) :]
    return f'"$({printed(body)})"{shlex.quote(ends) if ends else ""}'


def printed(text: str) -> str:
    """The printf command that writes exactly ``text``."""
    words = "".join(map(_for_printf, text))
    # printf would take a leading minus sign for an option.
    return f"printf '{re.sub('^-', _MINUS, words)}'"


def _for_printf(one: str) -> str:
    if one in _MEANT:
        return _MEANT[one]
    return one if is_visible(one) else "".join(f"\\{byte:03o}" for byte in one.encode("utf-8", "surrogateescape"))


_MEANT = {"\n": "\\n", "%": "%%", "\\": "\\\\", "'": "\\047"}
"""What printf, or the quotes around its words, would interpret."""

_MINUS = r"\\055"


def fetch(artifact: Artifact) -> tuple[tuple[str, ...], ...]:
    """The commands that download an artifact over https, or copy the user's own file."""
    folder = artifact.path.rpartition("/")[0]
    if artifact.own_path:
        return (("mkdir", "-p", "--", folder), ("cp", "--", artifact.own_path, artifact.path))
    get = ("curl", "--fail", "--location", "--proto", "=https", "--retry", "3", "--output", artifact.path, artifact.url)
    return (("mkdir", "-p", "--", folder), get)


def is_manual(step: Step) -> bool:
    """Whether a person has to carry out the step: its commands ask questions."""
    return step.kind == "manual"


def changes(step: Step) -> bool:
    """Whether the step does anything at all."""
    return bool(step.commands or step.files or step.artifacts)


def serves_reboot(plan: Plan) -> frozenset[str]:
    """The ids of the steps whose changes take effect only after the plan's reboot."""
    by_id = {step.id: step for step in plan.steps}
    waiting = [name for step in plan.steps if step.reboot_after for name in step.depends_on]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in by_id and name not in found:
            found.add(name)
            waiting += by_id[name].depends_on
    # A service that is enabled at boot does not require one.
    return frozenset(
        name
        for name in found
        if by_id[name].phase == "driver" and by_id[name].kind != "enable-service" and changes(by_id[name])
    )
