"""GPUs on the bus: the lanes of their links, their address space, and whether they still answer."""

from __future__ import annotations

from collections.abc import Iterator

from gpustack.detect.parse import pci
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene
from gpustack.model.host import Gpu

_MEMORY = 0x200
_REGIONS = 6
"""The regions of a function; that of its ROM, which comes after them, is often without an address."""

_FEW_LANES = 4
_NO_LANES = {"63", "255"}
"""What registers of a function read that does not answer: all ones."""


def _line(scene: Scene, gpu: Gpu, name: str) -> str:
    return scene.evidence.line(f"{pci.BASE}/{gpu.bus_id}/{name}") or ""


def _on_bus(scene: Scene) -> list[Gpu]:
    return [gpu for gpu in scene.gpus if gpu.bus_id]


@detects("detect-gpu-lost")
def lost(scene: Scene) -> Iterator[Finding]:
    """GPUs whose registers read as all ones."""
    for gpu in _on_bus(scene):
        if _line(scene, gpu, "current_link_width") in _NO_LANES:
            yield Finding(
                message=f"{gpu.called} at {gpu.bus_id} no longer answers on the bus: its registers read as all ones",
                fix="switch the machine off and on again; check power, seating and cooling of the board",
                severity="warn",
                reboot=True,
            )


@detects("detect-link")
def link(scene: Scene) -> Iterator[Finding]:
    """Links with fewer lanes than the board has; a lower speed is normal at rest."""
    if scene.environment != "bare-metal":
        return
    for gpu in _on_bus(scene):
        now, most = _line(scene, gpu, "current_link_width"), _line(scene, gpu, "max_link_width")
        if now.isdigit() and most.isdigit() and 0 < int(now) < int(most) and not {now, most} & _NO_LANES:
            yield Finding(
                message=f"the PCIe link of {gpu.called} at {gpu.bus_id} has {now} of {most} lanes: copies to and "
                "from it are slower by that share",
                fix="put the board into a slot with all lanes; check its seating, risers and the slot's setting in the"
                " firmware",
                severity="warn" if int(now) <= _FEW_LANES else "info",
                reboot=False,
            )


@detects("detect-bar")
def address_space(scene: Scene) -> Iterator[Finding]:
    """GPUs to whose memory the firmware gave no addresses."""
    for gpu in _on_bus(scene):
        lines = (scene.evidence.text(f"{pci.BASE}/{gpu.bus_id}/resource") or "").splitlines()[:_REGIONS]
        empty = [number for number, line in enumerate(lines) if _is_unassigned(line)]
        if empty:
            inside = "configure 64-bit MMIO space for the virtual machine, of twice the GPUs' memory"
            outside = "enable Above 4G Decoding and Resizable BAR in the firmware settings; `pci=realloc` on the"
            yield Finding(
                message=f"the machine assigned no addresses to BAR{empty[0]} of {gpu.called} at {gpu.bus_id}: the "
                "driver cannot use the GPU",
                fix=inside if scene.environment == "vm" else f"{outside} kernel's command line helps some",
                severity="warn",
                reboot=True,
            )


def _is_unassigned(line: str) -> bool:
    """Whether a line of ``resource`` is a memory region without an address."""
    try:
        start, _, flags = (int(word, 16) for word in line.split())
    except ValueError:
        return False
    return bool(flags & _MEMORY) and start == 0
