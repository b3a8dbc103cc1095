"""IMEX: what lets the GPUs of several machines of one NVLink rack share memory; of the driver's very version."""

from __future__ import annotations

from collections.abc import Iterable

from gpustack.model.facts import PackageSet
from gpustack.model.resolution import Pick
from gpustack.model.steps import FileWrite
from gpustack.plan import done
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import manager
from gpustack.plan.managers.base import Package

OPTIONS = "/etc/modprobe.d/gpustack-imex.conf"
RACK = "nvl"
"""The word by which the facts mark the superchips of NVLink racks."""


def is_needed(ctx: Context) -> bool:
    """Whether the host is part of an NVLink rack."""
    return any(gpu.fabric == RACK for gpu in ctx.host.gpus)


def imex(ctx: Context, pick: Pick, row: PackageSet, after: Iterable[str]) -> list[Draft]:
    """The steps that add IMEX to the driver ``pick``."""
    tool = manager(ctx.system.family)
    packages = [Package(name=name, pin=row.pin.replace("{version}", pick.version)) for name in row.packages]
    install = draft(
        "install:imex",
        after=after,
        component="driver",
        kind="install-packages",
        title=f"install IMEX {pick.version}",
        why="these GPUs share memory across the machines of their rack through it; its version is the driver's",
        commands=(tool.install(packages),),
        packages=tuple(tool.word(one) for one in packages),
        undo=(tool.remove(row.packages),),
        done_when=done.packages(tool, packages),
        phase="driver",
        sources=ctx.addresses(row),
    )
    channel = draft(
        "imex-channel",
        component="driver",
        kind="write-file",
        title="make the first IMEX channel at boot",
        why="programs open it; which machines form a domain stands in /etc/nvidia-imex/nodes_config.cfg, by hand",
        files=(FileWrite(path=OPTIONS, content="# Written by gpustack\noptions nvidia NVreg_CreateImexChannel0=1\n"),),
        undo=(("rm", "-f", "--", OPTIONS),),
        phase="driver",
        sources=ctx.addresses(row),
    )
    service = draft(
        "imex-service",
        after=["install:imex"],
        component="driver",
        kind="enable-service",
        title="enable IMEX",
        why="it starts at the next boot, with the new driver",
        commands=(("systemctl", "enable", "nvidia-imex.service"),),
        undo=(("systemctl", "disable", "nvidia-imex.service"),),
        done_when=done.unit("nvidia-imex.service"),
        phase="driver",
        sources=ctx.addresses(row),
    )
    return [install, channel, service]
