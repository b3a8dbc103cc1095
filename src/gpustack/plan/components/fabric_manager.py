"""The Fabric Manager of NVSwitch machines, and its companion on newer ones."""

from __future__ import annotations

from gpustack.model import actions as do
from gpustack.model.resolution import Pick
from gpustack.model.steps import FileWrite
from gpustack.plan import done
from gpustack.plan.components.base import Component
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft

UNIT = "nvidia-fabricmanager.service"
UMAD = "/etc/modules-load.d/gpustack-ib-umad.conf"


class FabricManager(Component):
    """The service that configures NVSwitch; its version equals that of the driver."""

    phase = "driver"

    def roles(self, ctx: Context, pick: Pick) -> tuple[str, ...]:  # noqa: ARG002 (the same for every pick)
        roles = ["main", "nscq"]
        if _has_nvlink5(ctx):
            roles += ["nvsdm", "nvlsm"]
        return tuple(roles)

    def after(self, ctx: Context, pick: Pick, installed: tuple[str, ...]) -> list[Draft]:  # noqa: ARG002
        drafts = []
        if _has_nvlink5(ctx):
            drafts.append(_umad(ctx, installed))
        now = not (ctx.driver_changes or ctx.is_image)
        drafts.append(
            draft(
                "fabric-service",
                after=(*installed, *(one.key for one in drafts)),
                component="fabric-manager",
                kind="enable-service",
                title="enable the Fabric Manager",
                why="CUDA fails with error 802 on these GPUs until it runs"
                + ("" if now else "; it starts at the next boot, with the new driver"),
                actions=(do.EnableService(unit=UNIT, now=now),),
                undo=(do.DisableService(unit=UNIT, now=now),),
                done_when=done.unit(UNIT, running=now),
                phase="driver",
                sources=ctx.addresses(ctx.matrix.conflicts.get("fabric_manager_missing")),
            )
        )
        return drafts


def _umad(ctx: Context, installed: tuple[str, ...]) -> Draft:
    return draft(
        "ib-umad",
        after=installed,
        component="fabric-manager",
        kind="write-file",
        title="load ib_umad at boot",
        why="the subnet manager of NVLink 5 switches communicates through it",
        files=(FileWrite(path=UMAD, content="# Written by gpustack\nib_umad\n"),),
        undo=(do.Remove(paths=(UMAD,)),),
        phase="driver",
        sources=ctx.addresses(ctx.matrix.conflicts.get("fabric_manager_missing")),
    )


def _has_nvlink5(ctx: Context) -> bool:
    """Whether the boards have NVLink 5 switches (Blackwell baseboards on), which also require the subnet manager."""
    return any((gpu.fabric or "") and (gpu.architecture or "").lower().startswith("blackwell") for gpu in ctx.host.gpus)


COMPONENT = FabricManager()
