"""cloud-init user-data: files in a folder of our own, then the plan as argument lists, across a reboot.

None of cloud-init's other modules is used: they would change a host before runcmd can refuse it.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

from gpustack.model.actions import Argv
from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, FileWrite, Step
from gpustack.render.basic_checks import verified_by
from gpustack.render.commands import command_line, fetch, is_manual
from gpustack.render.comments import comment, stack
from gpustack.render.templating import fill
from gpustack.render.verification import host_script, verification_script
from gpustack.render.yaml_text import Flow, Text, Value, lines
from gpustack.visible import one_line

LIMIT = 16 * 1024
"""EC2's limit for user-data, in bytes; other clouds allow more."""

STAGE = "/var/lib/gpustack/cloud-init"
"""The folder of files that are installed between two commands."""

BOOT_ID = "/proc/sys/kernel/random/boot_id"
_EARLIER = f"{STAGE}/boot-id"
_PER_BOOT = "/var/lib/cloud/scripts/per-boot"
_CHECK = '[ "$(sha256sum <"$1")" = "$2  -" ]'
_HOST = f"{STAGE}/host.sh"
_VERIFY = f"{STAGE}/verify.sh"


class _Part(NamedTuple):
    """What runs between two boots."""

    steps: list[Step]
    reboot: Step | None


class _Files:
    """The files in user-data. All are in our own folder, so that a host that is refused stays as it was."""

    def __init__(self) -> None:
        self.entries: list[Value] = []

    def add(self, path: str, content: str, mode: str) -> None:
        self.entries.append({"path": path, "permissions": mode, "content": Text(content)})

    def place(self, file: FileWrite) -> Argv:
        """The command that puts a file of the plan in place."""
        waiting = f"{STAGE}/{len(self.entries)}"
        self.add(waiting, file.content, "0600")
        return ("install", "-D", "-m", file.mode, "--", waiting, file.path)


def render(plan: Plan) -> str:
    """The plan as user-data for the first boot of a machine."""
    return sized(document_of(plan), comments_of(plan))


def document_of(plan: Plan) -> dict[str, Value]:
    """The keys of the user-data."""
    parts = _parts([step for step in plan.steps if not (step.kind == "note" or is_manual(step))])
    files = _Files()
    commands = [[argv for step in part.steps for argv in _commands(plan, step, files)] for part in parts]
    for number in range(len(parts) - 1, 0, -1):
        files.add(_waiting(number), _script(parts, commands[number], number), "0700")
    first: list[Value] = [Flow(argv) for argv in commands[0]]
    if parts[0].reboot is not None:
        first += [Flow(argv) for argv in _hand_over(1)]
    # cloud-init ignores an empty document.
    document: dict[str, Value] = {} if first else {"package_update": False}
    if first:
        files.add(_HOST, host_script(plan), "0600")
        document["write_files"] = files.entries
        # The script that cloud-init makes of this list continues after a failure by default.
        document["runcmd"] = ["set -e", _refusal(), *first]
    if parts[0].reboot is not None:
        document["power_state"] = _power_state(parts[0].reboot)
    return document


def _refusal() -> str:
    return f"sh {_HOST} || {{ code=$?; rm -rf -- {STAGE}; exit $code; }}"


def sized(document: dict[str, Value], comments: list[str]) -> str:
    """The text of user-data with its own size in it."""
    blocks = ["\n".join(lines({key: value})) for key, value in document.items()]
    size = 0
    while True:
        text = fill("cloud-init/user-data.j2", comments=[*comments, _size(size)], blocks=blocks)
        if len(text.encode()) == size:
            return text
        size = len(text.encode())


def _size(size: int) -> str:
    over = "" if size <= LIMIT else ": more than EC2 takes, so compress it (gzip -n), which cloud-init understands"
    return f"# {size:>6} bytes; EC2 takes {LIMIT}{over}"


def head(plan: Plan) -> list[str]:
    """The target of the plan, and its stack, as comments."""
    host = plan.host
    found = _comment(f"{host.os.called}, {host.arch or 'unknown architecture'}: plan {plan.digest}")
    found += stack(plan)
    for text in plan.warnings:
        found += _comment(f"warning: {text}")
    return found


def comments_of(plan: Plan) -> list[str]:
    """The target of the plan, its stack, and what remains to be done by hand, as comments."""
    found = head(plan)
    for step in plan.steps:
        if step.kind == "note" or is_manual(step):
            found += _comment(f"{'by hand' if is_manual(step) else 'note'}: {step.title}: {step.why}")
            found += [f"#     {one_line(command_line(argv))}" for argv in step.commands if is_manual(step)]
    return found


def _comment(text: str) -> list[str]:
    return comment(text, more="#   ")


def _parts(steps: list[Step]) -> list[_Part]:
    parts = [_Part([], None)]
    for step in steps:
        if step.reboot_after:
            parts[-1] = parts[-1]._replace(reboot=step)
            parts.append(_Part([], None))
        else:
            parts[-1].steps.append(step)
    return parts


def _commands(plan: Plan, step: Step, files: _Files) -> list[Argv]:
    found: list[Argv] = []
    for artifact in step.artifacts:
        found += _download(artifact)
    found += [files.place(file) for file in step.files]
    if verified_by(step):
        files.add(_VERIFY, verification_script(plan, step), "0600")
        return [*found, ("sh", _VERIFY)]
    return [*found, *step.commands]


def _download(artifact: Artifact) -> list[Argv]:
    found = list(fetch(artifact))
    if artifact.sha256:
        found.append(("sh", "-c", _CHECK, "sh", artifact.path, artifact.sha256))
    return found


def _waiting(number: int) -> str:
    return f"{STAGE}/after-reboot-{number}.sh"


def _hand_over(number: int) -> list[Argv]:
    """The commands that make the next part run at the next boot, and no earlier."""
    remembered = ("cp", "--", BOOT_ID, _EARLIER)
    return [remembered, ("install", "-D", "-m", "0700", "--", _waiting(number), f"{_PER_BOOT}/gpustack-{number}.sh")]


def _script(parts: list[_Part], commands: list[Argv], number: int) -> str:
    """The part after a reboot: it runs at every boot until it has succeeded, and then removes itself."""
    texts = ["#!/bin/sh", "# Written by gpustack: continues after a reboot", "set -e"]
    texts.append(f'[ "$(cat {BOOT_ID})" != "$(cat {_EARLIER})" ] || exit 0')
    texts += [shlex.join(argv) for argv in commands]
    reboot = parts[number].reboot
    if reboot is not None:
        texts += [shlex.join(argv) for argv in _hand_over(number + 1)]
    texts.append('rm -f -- "$0"' if reboot is not None else f'rm -f -- "$0" {_EARLIER}')
    if reboot is not None:
        texts += [shlex.join(argv) for argv in reboot.commands]
    return "\n".join(texts) + "\n"


def _power_state(step: Step) -> Value:
    """The reboot, if everything before it succeeded."""
    return {
        "mode": "reboot",
        "message": one_line(f"{step.title}: {step.why}"),
        "condition": Flow(("test", "-e", f"{_PER_BOOT}/gpustack-1.sh")),
    }
