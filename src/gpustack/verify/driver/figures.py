"""The datasheet values of the host's GPUs, from the matrix."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from gpustack.verify.declare import Context
from gpustack.verify.frame.probes import gpu_at


class Figures(Struct, frozen=True, kw_only=True):
    """One product: memory bandwidth in GB/s, dense matrix rate in TFLOP/s; None where no datasheet has it."""

    name: str
    devices: tuple[str, ...] = ()
    bandwidth_gbs: float | None = None
    fp16_tflops: float | None = None


def figures_of(context: Context, number: int, line: dict[str, Any]) -> Figures | None:
    """The values for the GPU of a probe's line, else for the only kind of GPU on the host; None if not known."""
    gpu = gpu_at(context.host, line.get("bus"))
    kinds = {one.pci_id for one in context.host.gpus}
    if gpu is None and len(kinds) == 1:
        gpu = context.host.gpus[min(number, len(context.host.gpus) - 1)]
    if gpu is None or gpu.pci_id is None:
        return None
    device = f"0x{gpu.pci_id.partition(':')[2]}"
    rows = context.matrix.rows("gpu-figures", "figures", Figures)
    # Products that share a device id differ in memory; only a lone row says which one it is.
    mine = [row for row in rows if device in row.devices]
    return mine[0] if len(mine) == 1 else None
