"""IMEX requested by name: its channel and its service, after its packages."""

from __future__ import annotations

from gpustack.model.resolution import Pick
from gpustack.plan.components.base import Component
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft
from gpustack.plan.methods.imex import channel_and_service


class Imex(Component):
    """The service that connects the GPUs of an NVLink rack; its version equals that of the driver."""

    phase = "driver"

    def after(self, ctx: Context, pick: Pick, installed: tuple[str, ...]) -> list[Draft]:  # noqa: ARG002
        return channel_and_service(ctx, "imex", ctx.matrix.addresses(("fabric-manager/gb300pkg",)))


COMPONENT = Imex()
