"""Faults without an error code in the lines of the kernel, X, installers and Jetson's services."""

from __future__ import annotations

from gpustack.detect.bus import ABOVE
from gpustack.detect.parse.pci import BASE
from gpustack.detect.problems.builds import OWN_HEADER
from gpustack.detect.problems.phrases import Cause, said
from gpustack.detect.scene import Scene
from gpustack.patterns import later

ABOUT = later(
    r"pciehp|nv_queue|nobody cared.*nvidia|\bnv_\w+|nvargus|Argus|NvBuf|nvbufsurface|nvv4l2|nvmap|nvgpu|\btegra|"
    r"GLX X_GLX|Failed to enter VT|modesetting permission|Lockdown: modprobe|diversion of|DEST_MODULE_LOCATION|"
    r"find any GPUs|KMS update|nvidia-fs|will not replace this module|version[- ]check failed|drm master|"
    rf"\(gcc. was not found in the /proc/version|{OWN_HEADER}: No such file"
)
"""Lines about such faults that need not name NVIDIA."""

_SLOT = later(r"pciehp.*(?:Link Down|Card not present)")
_PLACE = later(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d")


def fault(scene: Scene, line: str) -> Cause | None:
    """The cause that the line of a fault has."""
    if _SLOT.search(line):
        above = {path for path, mark in scene.evidence.marks.items() if mark == ABOVE}
        if above and not above & {f"{BASE}/{place}" for place in _PLACE.findall(line)}:
            return None
        return Cause(
            says="the slot above the GPU lost its link: an external GPU was unplugged, or its power or cable failed",
            fix="check cable, power and seating; an external GPU: connect it before the start, `boltctl list` shows it",
            sure=True,
        )
    return said(scene, "fault", line)
