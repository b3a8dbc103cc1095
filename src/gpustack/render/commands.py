"""A step as what a shell would run: the same for every format that shows or runs commands."""

from __future__ import annotations

import shlex

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


def one_line(text: str) -> str:
    """``text`` without line breaks and control characters, so that it can stand in a comment or a table."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
