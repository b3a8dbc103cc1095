"""Which steps of a plan belong into an image, in which layer, and as which shell commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from msgspec import Struct

from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, FileWrite, Step
from gpustack.plan.managers.base import CACHE
from gpustack.render.commands import fetch, is_manual

OF_THE_HOST = frozenset({"driver", "fabric-manager", "container-toolkit", "triton"})
"""Components that belong to the machine: containers get them lent, or are started by them."""

_RUNNING = frozenset({"note", "reboot", "load-module", "rebuild-initramfs", "enable-service"})
_SUBSCRIPTION = frozenset({"subscription-manager", "SUSEConnect"})
_MANAGERS = {
    "apt-get": ("", "/var/lib/apt/lists/*"),
    "dnf": ("dnf clean all", "/var/cache/dnf"),
    "yum": ("yum clean all", "/var/cache/yum"),
    "tdnf": ("tdnf clean all", "/var/cache/tdnf"),
    "zypper": ("zypper clean --all", ""),
}
"""What leaves nothing of an index or of packages in the layer: a command, a folder to remove."""

_WIDTH = 110

_APT = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=300")
_UPDATE = "apt-get update"


class Group(Struct, frozen=True, kw_only=True):
    """The steps of one layer: of one component, or ("") what several need."""

    name: str
    steps: tuple[Step, ...]
    environment: tuple[Step, ...] = ()

    @property
    def unpinned(self) -> bool:
        """Whether packages of the distribution are installed, which have no version in a plan."""
        return any(step.kind in {"install-packages", "hold-packages"} for step in self.steps)

    def lines(self, family: str) -> list[str]:
        """The commands of the layer for a POSIX shell, each whole; the index and every download is gone after them."""
        found: list[str] = []
        for step in self.steps:
            found += step_lines(step)
        if family == "apt" and any(text.startswith("DEBIAN_FRONTEND=") for text in found):
            found = _with_one_update(found)
        return [*found, *self._clean(found)]

    def _clean(self, commands: list[str]) -> list[str]:
        used = {text.split(" ")[1 if text.startswith("DEBIAN_FRONTEND=") else 0] for text in commands}
        cleaned = [clean for program, clean in _MANAGERS.items() if program in used]
        folders = [folder for _, folder in cleaned if folder]
        if any(CACHE in text for text in commands):
            folders.append(CACHE)
        gone = [f"rm -rf {' '.join(folders)}"] if folders else []
        return [*(command for command, _ in cleaned if command), *gone]


def groups_of(plan: Plan) -> tuple[list[Group], list[str]]:
    """The layers in the order in which they build on each other, and a sentence for each thing that is left out."""
    serves = _serves(plan)
    kept: list[Step] = []
    left_out: list[str] = []
    for step in plan.steps:
        why = _why_not(step, serves[step.id])
        if why is None:
            kept.append(step)
        elif why:
            left_out.append(f"{step.title}: left out, {why}")
    gone = [name for name in plan.stack if name in OF_THE_HOST and plan.stack[name].state != "keep"]
    if gone:
        left_out.insert(0, f"{', '.join(gone)}: left out, as a container gets them from its host")
    return _grouped(kept), left_out


def _why_not(step: Step, serves: set[str]) -> str | None:
    """Why a step does not belong into an image; "" where nobody asks, None where it does."""
    if step.kind == "refresh-index" and all(argv[0] in {"dnf", "yum", "tdnf"} for argv in step.commands):
        # The next installation reads it by itself, and a layer keeps none.
        return ""
    if step.component in OF_THE_HOST or (serves and serves <= OF_THE_HOST):
        return ""
    if step.reboot_after or step.kind in _RUNNING or step.phase == "verification":
        return ""
    if is_manual(step):
        return "it has to be done by hand"
    programs = {argv[0] for argv in step.commands if argv}
    if programs & _SUBSCRIPTION:
        return "as containers use the subscription of the machine that builds them"
    if programs & {"systemctl", "modprobe", "docker", "podman"}:
        return "as nothing runs in an image"
    return None


def _serves(plan: Plan) -> dict[str, set[str]]:
    """The components that each step is there for: its own, or those of the steps that need it."""
    serves: dict[str, set[str]] = {step.id: set() for step in plan.steps}
    for step in reversed(plan.steps):
        if step.phase == "verification":
            continue
        if step.component:
            serves[step.id] = {step.component}
        for need in step.depends_on:
            if need in serves:
                serves[need] |= serves[step.id]
    return serves


def _grouped(steps: list[Step]) -> list[Group]:
    """One group a component, the shared one first; in the plan's own order where that would break a dependency."""
    by_name: dict[str, list[Step]] = {"": []}
    # A component's place is that of its last step: its first ones are often prerequisites that come early.
    last = {step.component: number for number, step in enumerate(steps)}
    for name in sorted(last, key=lambda name: (name != "", last[name])):
        by_name[name] = [step for step in steps if step.component == name]
    runs = [(name, found) for name, found in by_name.items() if found]
    if not _is_ordered([step for _, found in runs for step in found]):
        runs = []
        for step in steps:
            if not runs or runs[-1][0] != step.component:
                runs.append((step.component, []))
            runs[-1][1].append(step)
    return [
        Group(
            name=name,
            steps=tuple(step for step in found if step.kind != "set-environment"),
            environment=tuple(step for step in found if step.kind == "set-environment"),
        )
        for name, found in runs
    ]


def _is_ordered(steps: list[Step]) -> bool:
    names = {step.id for step in steps}
    seen: set[str] = set()
    for step in steps:
        if any(need in names and need not in seen for need in step.depends_on):
            return False
        seen.add(step.id)
    return True


def step_lines(step: Step) -> list[str]:
    """The commands of one step: what it downloads, what it writes, what it runs."""
    found: list[str] = []
    for artifact in step.artifacts:
        found += _download(artifact)
    for file in step.files:
        found += _file(file)
    return [*found, *(script_of(argv) for argv in step.commands)]


def script_of(argv: tuple[str, ...]) -> str:
    """One command for a shell, with apt's switches for images."""
    if argv[: len(_APT)] != _APT:
        return _folded(map(shlex.quote, argv))
    words = list(argv[len(_APT) :])
    if words == ["update"]:
        return _UPDATE
    if words[:1] == ["install"]:
        words.insert(1, "--no-install-recommends")
    return _folded(["DEBIAN_FRONTEND=noninteractive", "apt-get", *map(shlex.quote, words)])


def _folded(words: Iterable[str]) -> str:
    """Words over as many lines as they need; no line begins with #, which a Dockerfile would take for a comment."""
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) >= _WIDTH:
            lines.append(word)
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return " \\\n      ".join(lines)


def _with_one_update(found: list[str]) -> list[str]:
    """Read the index before the first package and after each new source, and never twice with nothing between."""
    texts = [_UPDATE]
    for text in found:
        if text == _UPDATE and all(not one.startswith(("dpkg", "env", "printf", "cp", "find")) for one in texts[1:]):
            continue
        texts.append(text)
    while texts[-1] == _UPDATE:
        texts.pop()
    return texts


def _download(artifact: Artifact) -> list[str]:
    found = [script_of(argv) for argv in fetch(artifact)]
    if artifact.sha256:
        found.append(f'[ "$(sha256sum <{shlex.quote(artifact.path)})" = {shlex.quote(artifact.sha256 + "  -")} ]')
    return found


def _file(file: FileWrite) -> list[str]:
    path = shlex.quote(file.path)
    folder = file.path.rpartition("/")[0]
    found = [f"mkdir -p -- {shlex.quote(folder)}"] if folder else []
    if file.content.endswith("\n"):
        lines = [f" \\\n      {shlex.quote(line)}" for line in file.content[:-1].split("\n")]
        found.append(f"printf '%s\\n'{''.join(lines)} \\\n      >{path}")
    else:
        found.append(f"printf %s {shlex.quote(file.content)} >{path}")
    if file.mode != "0644":
        found.append(f"chmod {shlex.quote(file.mode)} -- {path}")
    return found
