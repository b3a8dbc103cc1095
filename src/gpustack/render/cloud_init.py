"""cloud-init user-data: repositories, packages and files by modules, the rest as argument lists, across a reboot."""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from gpustack.model.actions import Argv, Verify
from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, FileWrite, Step
from gpustack.plan.commands import spell
from gpustack.plan.former import actions_of
from gpustack.render.cloud_init_sources import Sources, sources_of
from gpustack.render.commands import command_line, fetch, is_manual
from gpustack.render.comments import comment, stack
from gpustack.render.templating import fill
from gpustack.render.yaml_text import Flow, Text, Value, lines
from gpustack.visible import one_line

LIMIT = 16 * 1024
"""EC2's limit for user-data, in bytes; other clouds allow more."""

STAGE = "/var/lib/gpustack/cloud-init"
"""The folder of files that are installed between two commands."""

BOOT_ID = "/proc/sys/kernel/random/boot_id"
_EARLIER = f"{STAGE}/boot-id"
_PER_BOOT = "/var/lib/cloud/scripts/per-boot"
_MANAGERS = frozenset({"apt", "dnf", "yum", "zypper"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]*")
_EARLY = re.compile(
    r"/etc/(apt/(preferences|apt\.conf)\.d|profile\.d|modprobe\.d|modules-load\.d|ld\.so\.conf\.d)/[^/]+"
)
_CHECK = '[ "$(sha256sum <"$1")" = "$2  -" ]'
_IF_THERE = '! command -v "$1" >/dev/null || exec "$@"'


class _Part(NamedTuple):
    """What runs between two boots."""

    steps: list[Step]
    reboot: Step | None


class _Files:
    """The files in user-data: those in place from the start, and those for later."""

    def __init__(self, entries: list[Value]) -> None:
        self.entries = entries

    def add(self, path: str, content: str, mode: str) -> None:
        self.entries.append({"path": path, "permissions": mode, "content": Text(content)})

    def place(self, file: FileWrite) -> list[Argv]:
        """The commands that put a file in place; none if it may be there before the first package."""
        if _EARLY.fullmatch(file.path):
            self.add(file.path, file.content, file.mode)
            return []
        waiting = f"{STAGE}/{len(self.entries)}"
        self.add(waiting, file.content, "0600")
        return [("install", "-D", "-m", file.mode, "--", waiting, file.path)]


def render(plan: Plan) -> str:
    """The plan as user-data for the first boot of a machine."""
    sources = sources_of(plan)
    early, rest = _packages(plan, sources)
    parts = _parts(rest)
    files = _Files(sources.files)
    commands = [[argv for step in part.steps for argv in _commands(step, files, sources)] for part in parts]
    for number in range(len(parts) - 1, 0, -1):
        script = _script(parts, commands[number], number)
        files.add(_waiting(number), script, "0700")
    document = _packaged(early, sources)
    if files.entries:
        document["write_files"] = files.entries
    first: list[Value] = [Flow(argv) for argv in commands[0]]
    if parts[0].reboot is not None:
        first += [Flow(argv) for argv in _hand_over(1)]
    if first:
        # The script that cloud-init makes of this list continues after a failure by default.
        document["runcmd"] = ["set -e", *first]
    if parts[0].reboot is not None:
        document["power_state"] = _power_state(parts[0].reboot)
    if not document:
        # cloud-init ignores an empty document.
        document["package_update"] = False
    told = _comments(plan)
    if sources.without_keyring:
        text = (
            "the package cuda-keyring is not installed: its source, key and preferences stand below, under the same "
            "names, so that it may be added at any time"
        )
        told += _comment(f"note: {text}")
    return sized(document, told)


def _packaged(early: list[Value], sources: Sources) -> dict[str, Value]:
    """The modules that install repositories and packages."""
    document: dict[str, Value] = {}
    if sources.apt:
        document["apt"] = {"sources": sources.apt}
    if sources.yum:
        document["yum_repos"] = sources.yum
    if early or document:
        document["package_update"] = True
    if early:
        document["packages"] = early
    return document


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
    found = _comment(f"{host.os.name or host.os.spelled}, {host.arch or 'unknown architecture'}: plan {plan.digest}")
    found += stack(plan)
    for text in plan.warnings:
        found += _comment(f"warning: {text}")
    return found


def _comments(plan: Plan) -> list[str]:
    found = head(plan)
    for step in plan.steps:
        if step.kind == "note" or is_manual(step):
            found += _comment(f"{'by hand' if is_manual(step) else 'note'}: {step.title}: {step.why}")
            found += [f"#     {one_line(command_line(argv))}" for argv in step.commands if is_manual(step)]
    return found


def _comment(text: str) -> list[str]:
    return comment(text, more="#   ")


def _packages(plan: Plan, sources: Sources) -> tuple[list[Value], list[Step]]:
    """The packages of the system's own archives with no prerequisites, and the remaining steps."""
    names: dict[str, None] = {}
    index: list[Step] = []
    rest: list[Step] = []
    acting = [step for step in plan.steps if not (step.kind == "note" or is_manual(step))]
    for step in acting:
        if sources.left.get(step.id) == ():
            continue
        if not rest and _is_common(plan, step):
            names.update(dict.fromkeys(step.packages))
        elif not (rest or names) and step.kind == "refresh-index":
            index.append(step)
        else:
            rest.append(step)
    # With packages cloud-init reads the indexes itself.
    return list(names), rest if names else [*index, *rest]


def _is_common(plan: Plan, step: Step) -> bool:
    return (
        plan.host.os.family in _MANAGERS
        and step.kind == "install-packages"
        and step.phase == "prerequisites"
        and not (step.files or step.artifacts)
        and bool(step.packages)
        and all(_NAME.fullmatch(name) for name in step.packages)
    )


def _parts(steps: list[Step]) -> list[_Part]:
    parts = [_Part([], None)]
    for step in steps:
        if step.reboot_after:
            parts[-1] = parts[-1]._replace(reboot=step)
            parts.append(_Part([], None))
        else:
            parts[-1].steps.append(step)
    return parts


def _commands(step: Step, files: _Files, sources: Sources) -> list[Argv]:
    if step.id in sources.left:
        return list(sources.left[step.id])
    found: list[Argv] = []
    for artifact in step.artifacts:
        found += _download(artifact)
    for file in step.files:
        found += files.place(file)
    for action in actions_of(step):
        found += map(_verified, spell(action)) if isinstance(action, Verify) else spell(action)
    return found


def _verified(argv: Argv) -> Argv:
    """Our own verification, on images that contain the program."""
    return ("sh", "-c", _IF_THERE, "sh", *argv)


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
