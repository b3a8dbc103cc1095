"""Holding a driver at its version: pinning packages, preferences, module streams, version locks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from gpustack.model import actions as do
from gpustack.model.actions import AnyAction, Package
from gpustack.model.facts import PackageSet
from gpustack.model.resolution import Pick
from gpustack.model.steps import FileWrite
from gpustack.plan import done
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import manager
from gpustack.plan.managers.base import Manager

_PATTERN = re.compile(r"[A-Za-z0-9*._:+~][A-Za-z0-9*._:+~-]*")
PREFERENCES = "/etc/apt/preferences.d/gpustack-nvidia-driver"
UNATTENDED = "/etc/apt/apt.conf.d/51gpustack-nvidia-driver"
_STREAMS = "/etc/dnf/modules.d"
_DRIVER_GLOBS = "*nvidia* cuda-drivers* libcuda1 libcudadebugger1 libnvcuvid1 libnvoptix1 libxnvctrl*"
_BLACKLIST = ("nvidia-", "libnvidia-", "cuda-drivers", "linux-modules-nvidia-")


def lock_driver(ctx: Context, pick: Pick, rows: tuple[PackageSet, ...]) -> list[Draft]:
    """The steps that fix the version before the driver is installed; ``rows`` are the pinning sets of the facts."""
    tool = manager(ctx.system.family)
    by_role = {row.role: row for row in rows}
    if tool.name == "apt":
        return _apt(ctx, tool, pick, by_role.get("pinning"))
    if tool.name == "dnf":
        return _dnf(ctx, tool, pick, by_role)
    return []


def unlock(ctx: Context, tool: Manager, component: str, names: Iterable[str]) -> tuple[AnyAction, ...]:
    """The actions that remove the host's holds on exactly these packages of a component, and on its installed ones."""
    if component == "driver" and tool.name == "dnf":
        # Its locks were removed before the module stream was chosen.
        return ()
    there = ctx.host.installed.get(component)
    known = {name for row in ctx.matrix.packages(component) for name in row.packages}
    wanted = dict.fromkeys((*names, *(name for name in (there.packages if there else ()) if name in known)))
    file = tool.hold_file(component, tuple(wanted))
    if file is not None:
        return (do.Remove(paths=(file.path,)),) if there else ()
    held = tuple(name for name in wanted if any(_holds(text, name) for text in ctx.host.holds))
    return (do.UnholdPackages(manager=tool.name, names=held),) if held else ()


def _holds(text: str, name: str) -> bool:
    """Whether a hold is on this package: apt and zypper print its name, dnf and yum its name, epoch and version."""
    return text == name or re.match(rf"(\d+:)?{re.escape(name)}-(\d+:)?\d[^-]*-", text) is not None


def _apt(ctx: Context, tool: Manager, pick: Pick, row: PackageSet | None) -> list[Draft]:
    drafts = []
    if row is not None:
        drafts.append(
            draft(
                "pinning",
                after=["index:cuda"],
                component="driver",
                kind="hold-packages",
                title=f"pin the driver branch with {', '.join(row.packages)}",
                why="the driver's packages follow the newest branch of the repository otherwise",
                actions=(do.InstallPackages(manager=tool.name, packages=tuple(Package(name=n) for n in row.packages)),),
                undo=(do.RemovePackages(manager=tool.name, names=row.packages),),
                done_when=done.names(tool, row.packages),
                phase="driver",
                sources=ctx.addresses(row),
            )
        )
    text = (
        "# Written by gpustack: every driver package at one version, whichever archive offers others\n"
        f"Package: {_DRIVER_GLOBS}\nPin: version {pick.version}*\nPin-Priority: 1001\n"
    )
    drafts.append(
        draft(
            "driver-lock",
            component="driver",
            kind="hold-packages",
            title=f"lock every driver package to {pick.version}",
            why="the meta packages require 'this version or newer' of their parts, and unattended upgrades replace "
            "libraries under a running module",
            files=(FileWrite(path=PREFERENCES, content=text), _unattended_file()),
            undo=(do.Remove(paths=(PREFERENCES, UNATTENDED)),),
            phase="driver",
            sources=ctx.addresses(ctx.matrix.conflicts.get("ubuntu_archive_vs_nvidia_repo")),
        )
    )
    return drafts


def unattended(ctx: Context, tool: Manager) -> list[Draft]:
    """The step that keeps unattended upgrades off a distribution's driver; the user upgrades it then."""
    if tool.name != "apt":
        return []
    return [
        draft(
            "driver-lock",
            component="driver",
            kind="hold-packages",
            title="exclude the driver from unattended upgrades",
            why="they replace libraries under a running module; apt upgrades it only on request, with a reboot",
            files=(_unattended_file(),),
            undo=(do.Remove(paths=(UNATTENDED,)),),
            phase="driver",
            sources=ctx.addresses(ctx.matrix.conflicts.get("driver_library_mismatch")),
        )
    ]


def _unattended_file() -> FileWrite:
    entries = "".join(f'    "^{name}";\n' for name in _BLACKLIST)
    head = "// Written by gpustack: a driver replaced under running programs breaks them until the next boot\n"
    return FileWrite(path=UNATTENDED, content=f"{head}Unattended-Upgrade::Package-Blacklist {{\n{entries}}};\n")


def _dnf(ctx: Context, tool: Manager, pick: Pick, rows: dict[str, PackageSet]) -> list[Draft]:
    drafts = []
    stream = rows.get("module-stream")
    if stream is not None:
        drafts.append(_stream(ctx, tool, pick, stream))
    # A lock of an earlier version would hide this one, and prevent a change of the stream.
    stale = tuple(text for text in ctx.host.holds if _is_stale(text, pick))
    if stale:
        drafts.insert(0, _unlock(ctx, tool, stale))
    lock = rows.get("branch-lock")
    if lock is not None:
        branch = pick.version.partition(".")[0]
        patterns = tuple(name.replace(f"*{branch}*", f"*{pick.version}*") for name in lock.packages)
        needs = () if ctx.system.manager == "dnf5" else tool.hold_tools()
        drafts.append(
            draft(
                "driver-lock",
                after=["index:cuda", "stream"],
                component="driver",
                kind="hold-packages",
                title=f"lock every driver package to {pick.version}",
                why="an ordinary upgrade would move the driver to another version or branch",
                actions=(do.HoldPackages(manager=tool.name, names=patterns, tools=needs),),
                undo=(do.UnholdPackages(manager=tool.name, names=patterns),),
                phase="driver",
                sources=ctx.addresses(lock),
            )
        )
    return drafts


def _is_stale(text: str, pick: Pick) -> bool:
    """Whether a lock is on another version of the driver; complex patterns are left to the user."""
    return "nvidia" in text and pick.version not in text and _PATTERN.fullmatch(text) is not None


def _unlock(ctx: Context, tool: Manager, stale: tuple[str, ...]) -> Draft:
    return draft(
        "driver-unlock",
        after=["index:cuda"],
        component="driver",
        kind="hold-packages",
        title="remove the locks on the installed driver",
        why="the locks hide every other version from the package manager",
        actions=(do.UnholdPackages(manager=tool.name, names=stale),),
        undo=(do.HoldPackages(manager=tool.name, names=stale),),
        phase="driver",
        sources=ctx.addresses(ctx.matrix.conflicts.get("held_packages")),
    )


def _stream(ctx: Context, tool: Manager, pick: Pick, row: PackageSet) -> Draft:
    stream = row.packages[0]
    name = stream.partition(":")[0]
    others = [text for text in ctx.host.streams if text.startswith(f"{name}:") and text != stream]
    instead: Literal["", "reset", "switch"] = ""
    if others:
        instead = "switch" if "driver" in ctx.host.installed else "reset"
    why = f"it provides the branch and the {pick.flavour or 'chosen'} kernel modules of {pick.version}"
    if others:
        why += f"; {others[0]} is enabled now and hides every other version"
    return draft(
        "stream",
        after=["index:cuda", "driver-unlock"],
        component="driver",
        kind="hold-packages",
        title=f"enable the module stream {stream}",
        why=why,
        actions=(do.EnableStream(manager=tool.name, stream=stream, instead=instead),),
        undo=(do.ResetStream(manager=tool.name, name=name),),
        done_when=done.every(
            *(
                done.succeeds("grep", "--quiet", "--line-regexp", "--fixed-strings", text, f"{_STREAMS}/{name}.module")
                for text in (f"stream={stream.partition(':')[2]}", "state=enabled")
            )
        ),
        phase="driver",
        sources=ctx.addresses(row),
    )
