"""pci.ids: names and chips of NVIDIA's devices. A name is a person's business: only new devices are proposed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from update.form import text_of
from update.record import Body, Found, Given, Row, refuse

HAND_OUT = "pci.ids of the PCI ID Repository, or the package of a distribution"
VENDOR = "10de"
_DEVICE = re.compile(r"\t([0-9a-f]{4})  ([^\x00-\x1f]+)")
_SUBSYSTEM = re.compile(r"\t\t[0-9a-f]{4} [0-9a-f]{4}  [^\x00-\x1f]+")
_GPU = re.compile(r"([A-Z][A-Z0-9]+(?: ?/ ?[A-Z0-9]+)?) \[(.+)\]")


def rows(bodies: Sequence[Body]) -> Given:
    """The devices of the vendor that are GPUs by the form of their name: chip, and product in brackets."""
    return Given(tuple(Found("gpus", "products", row) for body in bodies for row in _devices(body)))


def _devices(body: Body) -> Iterator[Row]:
    text = text_of(body)
    if not text.startswith("#\n#\tList of PCI ID's\n"):
        raise refuse(body.address, "is not a list of PCI ids")
    _, found, rest = text.partition(f"\n{VENDOR}  NVIDIA Corporation\n")
    if not found:
        raise refuse(body.address, f"has no vendor {VENDOR}")
    seen: set[str] = set()
    for line in rest.splitlines():
        if not line.startswith("\t"):
            if not line.startswith("#"):
                break  # the next vendor
            continue
        device = _DEVICE.fullmatch(line)
        if device is None:
            if not _SUBSYSTEM.fullmatch(line):
                raise refuse(body.address, f"has the line {line[:80]!r}")
            continue
        if device[1] in seen:
            raise refuse(body.address, f"has the device {device[1]} twice")
        seen.add(device[1])
        if gpu := _GPU.fullmatch(device[2]):
            yield {"device": f"0x{device[1]}", "name": gpu[2], "chip": gpu[1], "src": ["pciids"]}
