"""GPUs and NVSwitches from PCI ids, without a driver."""

from __future__ import annotations

import re

from msgspec import Struct

from gpustack.detect.evidence import Evidence
from gpustack.patterns import later

BASE = "/sys/bus/pci/devices"
GPU_CLASSES = ("0300", "0302", "0380")
"""VGA controller, 3D controller, other display controller."""

_HEX = later(r"(?:0x)?([0-9a-fA-F]{4,6})")


class PciFunction(Struct, frozen=True, kw_only=True):
    """One PCI function of vendor 10de. Ids are four lower-case hexadecimal digits, None if the file is invalid."""

    bus_id: str
    device: str | None = None
    kind: str | None = None
    subsystem: str | None = None
    bound: str | None = None

    @property
    def is_gpu(self) -> bool:
        return self.kind is not None and self.kind[:4] in GPU_CLASSES


def parse_functions(evidence: Evidence) -> tuple[PciFunction, ...]:
    """All functions of vendor 10de in the order of their addresses."""
    found = []
    for name in evidence.listings.get(BASE, ()):
        here = f"{BASE}/{name}"
        if _hex(evidence.line(f"{here}/vendor"), 4) != "10de":
            continue
        vendor, device = (_hex(evidence.line(f"{here}/subsystem_{part}"), 4) for part in ("vendor", "device"))
        driver = evidence.links.get(f"{here}/driver", "").rstrip("/").rpartition("/")[2]
        found.append(
            PciFunction(
                bus_id=name,
                device=_hex(evidence.line(f"{here}/device"), 4),
                kind=_hex(evidence.line(f"{here}/class"), 6),
                subsystem=f"{vendor}:{device}" if vendor and device else None,
                bound=driver or None,
            )
        )
    return tuple(found)


ACS = 0x0D
REDIRECTS = 0x001C
"""Request redirect, completion redirect, upstream forwarding: bits that send peers' requests up to the root."""


def acs_control(space: bytes) -> int | None:
    """The control word of the ACS capability in a configuration space; or None."""
    at, seen = 0x100, set[int]()
    while 0x100 <= at <= len(space) - 8 and at not in seen:
        seen.add(at)
        head = int.from_bytes(space[at : at + 4], "little")
        if head & 0xFFFF == ACS:
            return int.from_bytes(space[at + 6 : at + 8], "little")
        at = head >> 20
    return None


def guest_addresses(path: str, text: str) -> tuple[str, ...]:
    """The devices (domain, bus, slot) that the definition of a virtual machine of Proxmox or libvirt asks for."""
    if path.startswith("/etc/pve/qemu-server/"):
        found = re.findall(r"(?m)^hostpci\d+: *(?:host=)?((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2})", text)
        return tuple(one if one.count(":") == 2 else f"0000:{one}" for one in found)
    if path.startswith("/etc/libvirt/qemu/"):
        numbers = re.findall(
            r"<address domain=['\"]0x([0-9a-f]+)['\"] bus=['\"]0x([0-9a-f]+)['\"] slot=['\"]0x([0-9a-f]+)", text
        )
        return tuple(f"{int(domain, 16):04x}:{int(bus, 16):02x}:{int(slot, 16):02x}" for domain, bus, slot in numbers)
    return ()


def x_address(bus_id: str) -> str:
    """The address of a function as X's configuration has it: PCI:BUS:DEVICE:FUNCTION in decimal numbers."""
    _, bus, rest = bus_id.rsplit(":", 2)
    device, _, function = rest.partition(".")
    return f"PCI:{int(bus, 16)}:{int(device, 16)}:{int(function or '0', 16)}"


def _hex(text: str | None, digits: int) -> str | None:
    match = _HEX.fullmatch(text.strip()) if text else None
    return match[1].lower() if match and len(match[1]) == digits else None
