"""What the PCI bus shows without a driver: NVIDIA's functions, their links and memory, and the bridges above them."""

from __future__ import annotations

import re
from typing import Protocol

from gpustack.detect.parse.pci import BASE, acs_control
from gpustack.detect.tree import MissingFileError, Tree, UnusableFileError

CONFIGURATION = 4096
"""The size of a PCIe function's configuration space; only root may read past its first 64 bytes."""

ABOVE = "above a GPU"
"""Marks the ports and bridges that a GPU's link goes through."""

OF_NVIDIA = ("device", "class", "subsystem_vendor", "subsystem_device")
"""What is read of each function of NVIDIA's."""

_DISPLAY = "0x03"
_BRIDGE = "0x0604"
OF_GPUS = (
    "resource", "current_link_width", "max_link_width", "current_link_speed", "max_link_speed", "iommu_group/type",
    "sriov_numvfs", "power/control",
)  # fmt: skip
"""What is read of each GPU besides."""


class Work(Protocol):
    """What collects one machine's evidence."""

    tree: Tree
    files: dict[str, str]
    marks: dict[str, str]
    faults: dict[str, str]
    listings: dict[str, tuple[str, ...]]

    def text(self, path: str) -> None: ...
    def quiet_text(self, path: str) -> None: ...
    def link(self, path: str) -> None: ...
    def read(self, path: str, limit: int) -> bytes: ...


def read_bus(work: Work) -> None:
    """The functions of vendor 10de with their ids and the module that holds each; for several GPUs, bridges too."""
    kept = tuple(name for name in work.listings.get(BASE, ()) if _is_nvidia(work, name))
    gpus = [name for name in kept if _function(work, name)]
    above = _above(work, gpus)
    for name in above:
        work.marks[f"{BASE}/{name}"] = ABOVE
    if len(gpus) > 1:
        _bridges(work, above)
    if BASE in work.listings:
        work.listings[BASE] = kept
    for path in work.tree.glob("/sys/class/infiniband/*/device/vpd", limit=64):
        if b"SW_MNG" in work.read(path, 1 << 16):
            work.marks[path] = "SW_MNG"


def _is_nvidia(work: Work, name: str) -> bool:
    path = f"{BASE}/{name}/vendor"
    try:
        vendor = work.tree.read_text(path, 64)
    except MissingFileError:
        return False
    except UnusableFileError as exc:
        work.faults[path] = str(exc)
        return False
    if "10de" not in vendor.lower():
        return False
    work.files[path] = vendor
    return True


def _function(work: Work, name: str) -> bool:
    """One function of NVIDIA's; whether it is a GPU."""
    here = f"{BASE}/{name}"
    for part in OF_NVIDIA:
        work.text(f"{here}/{part}")
    work.link(f"{here}/driver")
    work.marks.pop(f"{here}/driver", None)
    is_gpu = work.files.get(f"{here}/class", "").startswith(_DISPLAY)
    for part in OF_GPUS if is_gpu else ():
        work.quiet_text(f"{here}/{part}")
    return is_gpu


def _above(work: Work, gpus: list[str]) -> list[str]:
    """The ports and bridges between the GPUs and the processor: as the links name them, else by their bus numbers."""
    places = [work.tree.link(f"{BASE}/{name}") or "" for name in gpus]
    named = (found for place in places for found in re.findall(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d", place))
    above = [name for name in dict.fromkeys(named) if name not in gpus]
    if above or not gpus:
        return above
    others = (name for name in work.listings.get(BASE, ()) if name not in gpus)
    return [name for name in others if _kind(work, name).startswith(_BRIDGE) and _leads_to(work, name, gpus)]


def _leads_to(work: Work, bridge: str, gpus: list[str]) -> bool:
    """Whether a GPU can be behind the bridge, by the range of bus numbers that it says is behind it."""
    here, numbers = f"{BASE}/{bridge}", ("secondary_bus_number", "subordinate_bus_number")
    first, last = (work.read(f"{here}/{name}", 16).decode("ascii", "replace").strip() for name in numbers)
    if not (first.isdigit() and last.isdigit()):
        return True
    domain = bridge.partition(":")[0]
    buses = (int(name.split(":")[1], 16) for name in gpus if name.startswith(f"{domain}:"))
    return any(int(first) <= bus <= int(last) for bus in buses)


def _bridges(work: Work, names: list[str]) -> None:
    """What the bridges between GPUs do with their requests to each other (ACS)."""
    for name in names:
        path = f"{BASE}/{name}/config"
        data = work.read(path, CONFIGURATION)
        if 0 < len(data) <= 64:
            work.marks[path] = "unread"
        elif (control := acs_control(data)) is not None:
            work.marks[path] = f"acs {control:04x}"


def _kind(work: Work, name: str) -> str:
    return work.read(f"{BASE}/{name}/class", 64).decode("ascii", "replace")
