"""IMEX shares memory between the GPUs of several machines of one NVLink rack; its version equals the driver's."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gpustack.model import actions as do
from gpustack.model.actions import Package
from gpustack.model.facts import PackageSet
from gpustack.model.resolution import Pick
from gpustack.model.steps import FileWrite
from gpustack.plan import done
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import manager

OPTIONS = "/etc/modprobe.d/gpustack-imex.conf"
UNIT = "nvidia-imex.service"
RACK = "nvl"
"""The word for superchips of NVLink racks in the facts."""


MASK = f"/etc/systemd/system/{UNIT}"
"""What systemd reads before the package's unit; a link to /dev/null keeps that from starting."""


class FabricRule(Struct, frozen=True, kw_only=True):
    """What a machine with an NVLink fabric requires, by the facts."""

    id: str
    src: tuple[str, ...] = ()


def is_needed(ctx: Context) -> bool:
    """Whether the host is part of an NVLink rack and runs IMEX."""
    return _is_in_rack(ctx) and ctx.request.imex != "off"


def warn_of_imex(ctx: Context) -> None:
    """Warn about what ``--imex`` omits, or that it has no effect here."""
    if ctx.request.imex == "off" and _is_in_rack(ctx):
        ctx.warn("without IMEX, GPUs share no memory with those of other machines of the rack (--imex off)")
    if ctx.request.imex and not _is_in_rack(ctx):
        ctx.warn(f"--imex {ctx.request.imex} is ignored: no GPU here belongs to an NVLink rack (GB200, GB300)")


def _is_in_rack(ctx: Context) -> bool:
    return any(gpu.fabric == RACK for gpu in ctx.host.gpus)


def imex(ctx: Context, pick: Pick, row: PackageSet, after: Iterable[str]) -> list[Draft]:
    """The steps that add IMEX to the driver ``pick``."""
    tool = manager(ctx.system.family)
    pin = row.pin.replace("{version}", pick.version)
    packages = tuple(Package(name=name, pin=pin) for name in row.packages)
    install = draft(
        "install:imex",
        after=after,
        component="driver",
        kind="install-packages",
        title=f"install IMEX {pick.version}",
        why="these GPUs share memory across the machines of their rack through it; its version is the driver's",
        actions=(do.InstallPackages(manager=tool.name, packages=packages),),
        undo=(do.RemovePackages(manager=tool.name, names=row.packages),),
        done_when=done.packages(tool, packages),
        phase="driver",
        sources=ctx.addresses(row),
    )
    return [install, *channel_and_service(ctx, "driver", ctx.addresses(row))]


def channel_and_service(ctx: Context, component: str, sources: tuple[str, ...]) -> list[Draft]:
    """The steps after the installation of IMEX: the channel that programs open, and the service.

    If Kubernetes runs IMEX, the host's service is masked instead.
    """
    if ctx.request.imex == "dra":
        return [_mask(ctx, component)]
    channel = draft(
        "imex-channel",
        component=component,
        kind="write-file",
        title="make the first IMEX channel at boot",
        why="programs open it; which machines form a domain stands in /etc/nvidia-imex/nodes_config.cfg, by hand",
        files=(FileWrite(path=OPTIONS, content="# Written by gpustack\noptions nvidia NVreg_CreateImexChannel0=1\n"),),
        undo=(do.Remove(paths=(OPTIONS,)),),
        phase="driver",
        sources=sources,
    )
    service = draft(
        "imex-service",
        after=["install:imex"],
        component=component,
        kind="enable-service",
        title="enable IMEX",
        why="it starts at the next boot, with the new driver",
        actions=(do.EnableService(unit=UNIT),),
        undo=(do.DisableService(unit=UNIT),),
        done_when=done.unit(UNIT),
        phase="driver",
        sources=sources,
    )
    return [channel, service]


def _mask(ctx: Context, component: str) -> Draft:
    """The step that masks the host's service if Kubernetes runs IMEX."""
    rules = (rule for rule in ctx.matrix.rows("gpus", "fabric_rules", FabricRule) if rule.id == "imex-dra")
    return draft(
        "imex-mask",
        after=["install:imex"],
        component=component,
        kind="write-file",
        title="mask the IMEX service of the host",
        why="the DRA driver of Kubernetes runs IMEX for each ComputeDomain, and a second one would hold its channels",
        actions=(do.Link(path=MASK, target="/dev/null"),),
        undo=(do.Remove(paths=(MASK,)),),
        phase="driver",
        sources=ctx.matrix.addresses(tuple(key for rule in rules for key in rule.src)),
    )
