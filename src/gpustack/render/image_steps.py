"""Which steps of a plan belong into an image, in which layer, and as which shell commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, FileWrite, Step
from gpustack.plan.managers.base import CACHE
from gpustack.render.commands import fetch, is_manual

OF_THE_HOST = frozenset({"driver", "fabric-manager", "container-toolkit", "triton"})
"""Components that belong to the machine: containers get them lent, or are started by them."""

_RUNNING = frozenset({"note", "reboot", "load-module", "rebuild-initramfs", "enable-service"})
_SHARED = frozenset({"download", "add-repository", "refresh-index"})
_SUBSCRIPTION = frozenset({"subscription-manager", "SUSEConnect"})
_MANAGERS = {
    "apt-get": ("", "/var/lib/apt/lists/*"),
    "dnf": ("dnf clean all", "/var/cache/dnf"),
    "yum": ("yum clean all", "/var/cache/yum"),
    "tdnf": ("tdnf clean all", "/var/cache/tdnf"),
    "zypper": ("zypper clean --all", ""),
}
"""What leaves nothing of an index or of packages in the layer: a command, a folder to remove."""

_PINNED = re.compile(r"=|-\d+[.:]")
_WIDTH = 110

_APT = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=300")
_UPDATE = ("apt-get update",)

Lines = tuple[str, ...]
"""One command of a shell, as the lines on which a Dockerfile shows it."""


class Group(Struct, frozen=True, kw_only=True):
    """The steps of one layer: of one component, or ("") what several need."""

    name: str
    steps: tuple[Step, ...]
    environment: tuple[Step, ...] = ()

    @property
    def unpinned(self) -> bool:
        """Whether packages of the distribution are installed, which have no version in a plan."""
        return any(_is_unpinned(argv) for step in self.steps for argv in step.commands)

    def commands(self, family: str) -> list[Lines]:
        """The commands of the layer for a POSIX shell; the index and every download is gone after them."""
        found: list[Lines] = []
        for step in self.steps:
            found += _step_commands(step)
        if family == "apt" and any(lines[0].startswith("DEBIAN_FRONTEND=") for lines in found):
            found = _with_one_update(found)
        return [*found, *self._clean(found)]

    def _clean(self, commands: list[Lines]) -> list[Lines]:
        words = [lines[0].split(" ") for lines in commands]
        used = {found[1] if found[0].startswith("DEBIAN_FRONTEND=") else found[0] for found in words}
        cleaned = [clean for program, clean in _MANAGERS.items() if program in used]
        folders = [folder for _, folder in cleaned if folder]
        if any(CACHE in text for lines in commands for text in lines):
            folders.append(CACHE)
        gone = [(f"rm -rf {' '.join(folders)}",)] if folders else []
        return [*((command,) for command, _ in cleaned if command), *gone]


def _is_unpinned(argv: tuple[str, ...]) -> bool:
    """Whether a command installs a package without a version."""
    if "install" not in argv or not set(argv) & _MANAGERS.keys():
        return False
    words = [word for word in argv[argv.index("install") + 1 :] if not word.startswith("-")]
    return any(not _PINNED.search(word) for word in words)


def groups_of(plan: Plan) -> tuple[list[Group], list[str]]:
    """The layers in the order in which they build on each other, and a sentence for each thing that is left out."""
    serves = _serves(plan)
    kept: list[Step] = []
    left_out: list[str] = []
    for step in plan.steps:
        why = _why_not(step, serves[step.id])
        if why is None:
            kept.append(_of_the_image(step, serves[step.id]))
        elif why:
            left_out.append(f"{step.title}: left out, {why}")
    gone = [name for name in plan.stack if name in OF_THE_HOST and plan.stack[name].state != "keep"]
    if gone:
        left_out.insert(0, f"{', '.join(gone)}: left out, as a container gets them from its host")
    return _grouped(kept), left_out


def _of_the_image(step: Step, serves: set[str]) -> Step:
    """The step in the layer that uses it: what the host's own components share with others is for those here."""
    if step.component in OF_THE_HOST:
        return replace(step, component=min(serves - OF_THE_HOST))
    return step


def _why_not(step: Step, serves: set[str]) -> str | None:
    """Why a step does not belong into an image; "" where nobody asks, None where it does."""
    if step.kind == "refresh-index" and all(argv[0] in {"dnf", "yum", "tdnf"} for argv in step.commands):
        # The next installation reads it by itself, and a layer keeps none.
        return ""
    if (serves or {step.component}) <= OF_THE_HOST:
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
            # One download may bring the driver and the toolkit; what else needs a driver's step, a container has lent.
            others = serves[step.id] if step.kind in _SHARED else set()
            serves[step.id] = {step.component} | others
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


def _step_commands(step: Step) -> list[Lines]:
    """The commands of one step: what it downloads, what it writes, what it runs."""
    found: list[Lines] = []
    for artifact in step.artifacts:
        found += _download(artifact)
    for file in step.files:
        found += _file(file)
    return [*found, *(shell_lines(argv) for argv in step.commands if not _only_reads(argv))]


def _only_reads(argv: tuple[str, ...]) -> bool:
    """Whether a command only reads an index that the next installation reads by itself."""
    return argv[0] in {"dnf", "yum", "tdnf"} and bool({"makecache", "expire-cache"} & set(argv))


def shell_lines(argv: tuple[str, ...]) -> Lines:
    """One command for a shell, with apt's switches for images."""
    if argv[: len(_APT)] != _APT:
        return _folded(map(shlex.quote, argv))
    words = list(argv[len(_APT) :])
    if words == ["update"]:
        return _UPDATE
    if words[:1] == ["install"]:
        words.insert(1, "--no-install-recommends")
    return _folded(["DEBIAN_FRONTEND=noninteractive", "apt-get", *map(shlex.quote, words)])


def _folded(words: Iterable[str]) -> Lines:
    """Words on as many lines as they need; none begins with #, which a Dockerfile would take for a comment."""
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) >= _WIDTH:
            lines.append(word)
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return tuple(lines)


def _with_one_update(commands: list[Lines]) -> list[Lines]:
    """Read the index before the first package and after each new source, and never twice with nothing between."""
    found: list[Lines] = [_UPDATE]
    for lines in commands:
        changed = any(one[0].startswith(("dpkg", "env", "printf", "cp", "find")) for one in found)
        if lines != _UPDATE or changed:
            found.append(lines)
    while found[-1] == _UPDATE:
        found.pop()
    return found


def _download(artifact: Artifact) -> list[Lines]:
    found: list[Lines] = [shell_lines(argv) for argv in fetch(artifact)]
    if artifact.sha256:
        digest = shlex.quote(artifact.sha256 + "  -")
        found.append((f'[ "$(sha256sum <{shlex.quote(artifact.path)})" = {digest} ]',))
    return found


def _file(file: FileWrite) -> list[Lines]:
    path = shlex.quote(file.path)
    folder = file.path.rpartition("/")[0]
    found: list[Lines] = [(f"mkdir -p -- {shlex.quote(folder)}",)] if folder else []
    if file.content.endswith("\n"):
        content = [shlex.quote(line) for line in file.content[:-1].split("\n")]
        found.append(("printf '%s\\n'", *content, f">{path}"))
    else:
        found.append((f"printf %s {shlex.quote(file.content)} >{path}",))
    if file.mode != "0644":
        found.append((f"chmod {shlex.quote(file.mode)} -- {path}",))
    return found
