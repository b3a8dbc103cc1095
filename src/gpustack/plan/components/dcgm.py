"""DCGM: its build for the driver's CUDA, its service, and the one package of DCGM 3 that DCGM 4 takes the place of."""

from __future__ import annotations

from msgspec import Struct

from gpustack.model import actions as do
from gpustack.model.resolution import Pick
from gpustack.plan import done
from gpustack.plan.components.base import Component
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import manager
from gpustack.versions import is_within

UNIT = "nvidia-dcgm.service"
_BEFORE_4 = "datacenter-gpu-manager"


class Build(Struct, frozen=True, kw_only=True):
    """The package set for a major version of CUDA, and the first driver that has this CUDA."""

    role: str
    driver: str
    src: tuple[str, ...] = ()


class Dcgm(Component):
    """The service that watches GPUs, and their diagnostics."""

    phase = "applications"

    def before(self, ctx: Context, pick: Pick) -> list[Draft]:
        there = ctx.host.installed.get("dcgm")
        if there is None or _BEFORE_4 not in there.packages or not is_within(pick.version, ">=4"):
            return []
        tool = manager(ctx.system.family)
        return [
            draft(
                "dcgm-before-4",
                component="dcgm",
                kind="remove-packages",
                title=f"remove DCGM {there.version}",
                why="DCGM 4 has other package names and the same programs; NVIDIA asks to remove the package before it",
                actions=(do.RemovePackages(manager=tool.name, names=(_BEFORE_4,)),),
                undo_note=f"DCGM {there.version} was installed before; make a plan for it to return to it",
                done_when="never",
                phase=self.phase,
                sources=ctx.matrix.addresses(("dcgm/started",)),
            )
        ]

    def roles(self, ctx: Context, pick: Pick) -> tuple[str, ...]:
        """DCGM 3 is one package; of 4, the newest build that the driver serves. Without a driver, the newest of all."""
        driver = ctx.version("driver")
        offered = [row for row in ctx.matrix.rows("dcgm", "builds", Build) if pick.offer.package_set(row.role)]
        serving = [row for row in offered if driver is None or is_within(driver, f">={row.driver}")]
        return ("main", *(row.role for row in serving[-1:]))

    def after(self, ctx: Context, pick: Pick, installed: tuple[str, ...]) -> list[Draft]:  # noqa: ARG002
        now = not ctx.is_image
        return [
            draft(
                "dcgm-service",
                after=installed,
                component="dcgm",
                kind="enable-service",
                title="enable the service of DCGM",
                why="it starts nv-hostengine, which dcgmi and exporters ask",
                actions=(do.EnableService(unit=UNIT, now=now),),
                undo=(do.DisableService(unit=UNIT, now=now),),
                done_when=done.unit(UNIT, running=now),
                phase=self.phase,
                sources=ctx.matrix.addresses(("dcgm/started",)),
            )
        ]


COMPONENT = Dcgm()
