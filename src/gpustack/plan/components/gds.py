"""GPUDirect Storage: its packages come after the driver, whose kernel modules its own module is built against."""

from __future__ import annotations

from gpustack.model.resolution import Pick
from gpustack.plan.components.base import Component
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft


class Gds(Component):
    """Reads and writes of files by GPUs: libcufile, its tools, and the kernel module nvidia-fs."""

    phase = "applications"

    def before(self, ctx: Context, pick: Pick) -> list[Draft]:  # noqa: ARG002 (the same for every pick)
        if ctx.host.secure_boot:
            ctx.warn("GPUDirect Storage does not work while Secure Boot is on: its module nvidia-fs is not loaded")
        return []


COMPONENT = Gds()
