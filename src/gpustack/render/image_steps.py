"""Which steps of a plan belong into an image, in which layer, and as which shell commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from gpustack.errors import UnsupportedError
from gpustack.model import actions as do
from gpustack.model.actions import Argv
from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, FileWrite, Step
from gpustack.plan.commands import spell
from gpustack.plan.former import actions_of
from gpustack.plan.managers import manager
from gpustack.plan.managers.base import CACHE
from gpustack.render.commands import fetch, is_manual

OF_THE_HOST = frozenset({"driver", "fabric-manager", "container-toolkit", "triton"})
"""Components that belong to the machine: it provides them to containers, or starts containers with them."""

_RUNNING = frozenset({"note", "reboot", "load-module", "rebuild-initramfs", "enable-service"})
_SHARED = frozenset({"download", "add-repository", "refresh-index"})
_SYSTEM = (
    *(do.EnableService, do.DisableService, do.RestartService),
    *(do.PullImage, do.RemoveImage, do.StartContainer, do.RemoveContainer),
)
"""Actions on a running system, which an image is not."""

_SOURCES = (do.InstallFile, do.EnableSource, do.DisableRepository, do.TrustLocalKeys)
"""Actions after which an index must be refreshed, besides written files."""

_UPDATE = do.RefreshIndex(manager="apt")
_PATH = re.compile(r"(?m)^\s*(?:\*\) )?PATH=(/[A-Za-z0-9_./-]+/bin):\$PATH")
_LOADER = re.compile(r"LD_LIBRARY_PATH=(/[A-Za-z0-9_./-]+)\$\{LD_LIBRARY_PATH:\+")
_VERSIONED = re.compile(r"-\d+[.:]")
_WORDS = frozenset({"do", "done", "else", "esac", "fi", "then"})
"""Lines that shellcheck would take for the shell's own words."""

_WIDTH = 110
_CONTEXT = "/run/gpustack"
"""Where files of the build context are mounted."""

Lines = tuple[str, ...]
"""One shell command, as the lines of a Dockerfile."""


class Group(Struct, frozen=True, kw_only=True):
    """The steps of one layer: of one component, or ("") what several need."""

    name: str
    steps: tuple[Step, ...]
    environment: tuple[Step, ...] = ()

    @property
    def actions(self) -> list[do.AnyAction]:
        """All actions of the layer."""
        return [action for step in self.steps for action in actions_of(step)]

    @property
    def unpinned(self) -> bool:
        """Whether it installs packages of the distribution, which have no version in a plan."""
        for action in self.actions:
            match action:
                case do.InstallPackages(packages=packages):
                    if any(not (one.pin or _VERSIONED.search(one.name)) for one in packages):
                        return True
                case do.HoldPackages(tools=tools) if tools:
                    return True
                case _:
                    pass
        return False

    def commands(self) -> list[Lines]:
        """The commands of the layer for a POSIX shell; they remove the index and every download at the end."""
        found = _with_one_update([one for step in self.steps for one in _step_commands(step)])
        return [*found, *self._clean(found)] if found else []

    def _clean(self, commands: list[Lines]) -> list[Lines]:
        names = {
            action.manager: None
            for action in self.actions
            if isinstance(action, do.InstallPackages | do.RemovePackages | do.RefreshIndex | do.HoldPackages)
        }
        tools = [manager(name) for name in names]
        gone = [tool.left for tool in tools if tool.left]
        if any(CACHE in text for lines in commands for text in lines):
            gone.append(CACHE)
        return [*((tool.clean,) for tool in tools if tool.clean), *([(f"rm -rf {' '.join(gone)}",)] if gone else [])]


def groups_of(plan: Plan) -> tuple[list[Group], list[str]]:
    """The layers in the order in which they build on each other, and a sentence for each omission."""
    serves = _serves(plan)
    kept: list[Step] = []
    left_out: list[str] = []
    for step in plan.steps:
        why = _why_not(step, serves[step.id])
        if why is None:
            kept.append(_of_the_image(step, serves[step.id]))
        elif why:
            left_out.append(f"{step.title}: skipped, {why}")
    gone = [name for name in plan.stack if name in OF_THE_HOST and plan.stack[name].state != "keep"]
    if gone:
        left_out.insert(0, f"{', '.join(gone)}: skipped, because a container gets them from its host")
    return [group for group in _grouped(kept) if group.environment or group.commands()], left_out


def image_groups(plan: Plan) -> list[Group]:
    """The layers. Raises UnsupportedError for a plan without any."""
    kept, _ = groups_of(plan)
    if not kept:
        msg = (
            "nothing in this plan belongs in an image: a container uses the driver and the container engine of its host"
        )
        raise UnsupportedError(msg, code="not-renderable", hint="plan cuda, cudnn, tensorrt or ffmpeg for an image")
    return kept


def environment(plan: Plan, groups: list[Group]) -> list[tuple[str, str]]:
    """The variables of the image, as a shell would assign them."""
    video = {"ffmpeg", "nv-codec-headers"} & set(plan.stack)
    found = [("NVIDIA_VISIBLE_DEVICES", "all")]
    found.append(("NVIDIA_DRIVER_CAPABILITIES", "compute,utility" + (",video" if video else "")))
    for text in [file.content for group in groups for step in group.environment for file in step.files]:
        path, loader = _PATH.search(text), _LOADER.search(text)
        if path:
            found.append(("PATH", f"{path[1]}:${{PATH}}"))
        if loader:
            found.append(("LD_LIBRARY_PATH", f"{loader[1]}${{LD_LIBRARY_PATH:+:${{LD_LIBRARY_PATH}}}}"))
    return found


def _of_the_image(step: Step, serves: set[str]) -> Step:
    """The step in the layer that uses it: what the host's own components share with others is for those here."""
    if step.component in OF_THE_HOST:
        return replace(step, component=min(serves - OF_THE_HOST))
    return step


def _why_not(step: Step, serves: set[str]) -> str | None:
    """Why a step does not belong into an image; "" for an obvious reason, None if it does."""
    if (serves or {step.component}) <= OF_THE_HOST:
        return ""
    if step.reboot_after or step.kind in _RUNNING or step.phase == "verification":
        return ""
    if is_manual(step):
        return "it must be done by hand"
    actions = actions_of(step)
    if step.kind == "refresh-index" and not any(_words(action) for action in actions):
        return ""
    if any(isinstance(action, do.EnableSource) and action.needs_account for action in actions):
        return "because containers use the subscription of the machine that builds them"
    if any(isinstance(action, _SYSTEM) for action in actions):
        return "because nothing runs in an image"
    return None


def _serves(plan: Plan) -> dict[str, set[str]]:
    """The components that each step serves: its own, or those of the steps that depend on it."""
    serves: dict[str, set[str]] = {step.id: set() for step in plan.steps}
    for step in reversed(plan.steps):
        if step.phase == "verification":
            continue
        if step.component:
            # One download may serve the driver and the toolkit; the host lends a container all else of the driver.
            others = serves[step.id] if step.kind in _SHARED else set()
            serves[step.id] = {step.component} | others
        for need in step.depends_on:
            if need in serves:
                serves[need] |= serves[step.id]
    return serves


def _grouped(steps: list[Step]) -> list[Group]:
    """One group per component, the shared one first; in the plan's own order if that would break a dependency."""
    by_name: dict[str, list[Step]] = {"": []}
    # The place of a component is that of its last step: its first ones are often early prerequisites.
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


class _Command(NamedTuple):
    lines: Lines
    is_update: bool = False
    brings_source: bool = False
    needs_index: bool = False


def _step_commands(step: Step) -> list[_Command]:
    """The commands of one step: what it downloads, what it writes, what it does."""
    found = [_Command(lines) for artifact in step.artifacts for lines in _download(artifact)]
    found += [_Command(lines, brings_source=True) for file in step.files for lines in _file(file)]
    for action in actions_of(step):
        is_apt = isinstance(action, do.PackageAction) and action.manager == "apt"
        found += [
            _Command(
                shell_lines(argv),
                is_update=is_apt and isinstance(action, do.RefreshIndex),
                brings_source=isinstance(action, _SOURCES),
                needs_index=is_apt and isinstance(action, do.InstallPackages | do.RemovePackages),
            )
            for argv in _words(action)
        ]
    return found


def _words(action: do.AnyAction) -> tuple[Argv, ...]:
    """The words of an action while building an image."""
    return manager(action.manager).in_image(action) if isinstance(action, do.PackageAction) else spell(action)


def shell_lines(argv: Argv) -> Lines:
    """One command for a shell."""
    return _folded(map(shlex.quote, argv))


def _folded(words: Iterable[str]) -> Lines:
    """Words on as many lines as they need; none begins with #, which a Dockerfile would take for a comment."""
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) >= _WIDTH:
            lines.append(word)
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return tuple(lines)


def _with_one_update(commands: list[_Command]) -> list[Lines]:
    """Read apt's index before the first package and after each new source, and never twice in a row."""
    found: list[_Command] = []
    if any(one.needs_index for one in commands):
        found = [_Command((" ".join(argv),), is_update=True) for argv in manager("apt").in_image(_UPDATE)]
    for one in commands:
        if not one.is_update or not any(other.is_update for other in found) or any(o.brings_source for o in found):
            found.append(one)
    while found and found[-1].is_update:
        found.pop()
    return [one.lines for one in found]


def mounted(artifact: Artifact) -> str:
    """Where a RUN instruction finds a file of the user's own, which lies in the build context under its own name."""
    return f"{_CONTEXT}/{artifact.path.rpartition('/')[2]}"


def _download(artifact: Artifact) -> list[Lines]:
    if artifact.own_path:
        artifact = replace(artifact, url=f"file://{quote(mounted(artifact))}")
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
        content = [f"'{line}'" if line in _WORDS else shlex.quote(line) for line in file.content[:-1].split("\n")]
        found.append(("printf '%s\\n'", *content, f">{path}"))
    else:
        found.append((f"printf %s {shlex.quote(file.content)} >{path}",))
    if file.mode != "0644":
        found.append((f"chmod {shlex.quote(file.mode)} -- {path}",))
    return found
