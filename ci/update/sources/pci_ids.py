"""pci.ids: names and chips of NVIDIA's devices. A name is a person's business: only new devices are proposed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from update.form import text_of
from update.record import Body, Found, Given, Row, refuse

HAND_OUT = "pci.ids of the PCI ID Repository, or the package of a distribution"
VENDOR = "10de"
_HEADS = ("#\n#\tList of PCI ID's\n", "#\n#\tList of PCI IDs\n")
_DEVICE = re.compile(r"\t([0-9a-f]{4})  ([^\x00-\x1f]+)")
_SUBSYSTEM = re.compile(r"\t\t[0-9a-f]{4} [0-9a-f]{4}  [^\x00-\x1f]+")
_GPU = re.compile(r"([A-Z][A-Z0-9]+(?: ?/ ?[A-Z0-9]+)?) \[(.+)\]")
_UNNAMED = re.compile(r"(?:G[A-Z]|TU)\d{2,3}[A-Z]*")
"""A device of which only the chip is known."""
_FAMILIES = {
    "datacenter": re.compile(r"Tesla|GRID|Server Edition|HGX|^(?:[ABHL]\d{1,3}|G[BH]\d00)(?!\w)"),
    "consumer": re.compile(r"GeForce|TITAN|^ION\b|^nForce", re.IGNORECASE),
    "professional": re.compile(r"Quadro|NVS|RTX PRO|RTX A?\d{1,4}H?\b|^T\d{3,4}\b"),
}
"""The words of a product's name that tell its class; the first class counts."""


def rows(bodies: Sequence[Body]) -> Given:
    """The devices of the vendor that are GPUs by the form of their name: chip, and product in brackets."""
    products = [row for body in bodies for row in _devices(body)]
    unnamed = [row for row in products if row["name"].endswith(f"({row['device']})")]
    doubts = [{"device": row["device"], "confidence": "unnamed", "src": row["src"]} for row in unnamed]
    found = [Found("gpus", "products", row) for row in products]
    return Given((*found, *(Found("gpus", "boards", row) for row in doubts)))


def _devices(body: Body) -> Iterator[Row]:
    text = text_of(body)
    if not text.startswith(_HEADS):
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
        if row := _product(device[1], device[2]):
            yield row


def _product(device: str, text: str) -> Row | None:
    """A GPU by the form of its name: chip, and product in brackets, or the chip alone."""
    about: Row = {"device": f"0x{device}", "src": ["pciids"]}
    if gpu := _GPU.fullmatch(text):
        kinds = [kind for kind, words in _FAMILIES.items() if words.search(gpu[2])]
        return {**about, "name": gpu[2], "chip": gpu[1], **({"kind": kinds[0]} if kinds else {})}
    return {**about, "name": f"{text} (0x{device})", "chip": text} if _UNNAMED.fullmatch(text) else None
