"""From PCI ids to products: the GPU table's knowledge about a function on the bus."""

import re
from functools import cached_property
from typing import Any

from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.model.host import Gpu
from gpustack.model.places import GpuProduct


class Integrated(Struct, frozen=True, kw_only=True):
    """The GPU of a Jetson module, which is not a PCI device; ``soc`` is the chip in the device tree."""

    name: str
    soc: str = ""
    aliases: tuple[str, ...] = ()
    architecture: str = ""
    compute_capability: str = ""
    chip: str = ""
    kind: str = "soc"
    memory_gib: float | None = None
    nvenc: int | None = None


class _Capability(Struct, frozen=True, kw_only=True):
    """A compute capability, and the number that another CUDA gives to the same chips."""

    compute_capability: str
    also_known_as: str = ""


def device_digits(text: str) -> str:
    """The four hexadecimal digits of a device id in any notation ("0x2335", "10de:2335")."""
    return text.lower().rpartition(":")[2].removeprefix("0x")


class Products:
    """The GPU table by device id."""

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix
        self._found: dict[str, list[GpuProduct]] = {}

    @property
    def rows(self) -> tuple[GpuProduct, ...]:
        """All products, those of one device id next to each other."""
        return self._matrix.products

    def rows_with(self, words: tuple[str, ...]) -> tuple[GpuProduct, ...]:
        """The products with all words (in lower case) in their names, and maybe others."""
        return self._matrix.rows_with("gpus", "products", GpuProduct, words)

    @cached_property
    def by_device(self) -> dict[str, list[GpuProduct]]:
        """The rows of each device id; read where a device may be none of NVIDIA's GPUs."""
        found: dict[str, list[GpuProduct]] = {}
        for row in self._matrix.products:
            found.setdefault(device_digits(row.device), []).append(row)
        return found

    def _of_device(self, device: str) -> list[GpuProduct]:
        """The rows of one device id: the others are not decoded."""
        if device not in self._found:
            rows = self.rows_with((device.lower(),))
            self._found[device] = [row for row in rows if device_digits(row.device) == device]
        return self._found[device]

    def knows(self, device: str) -> bool:
        """Whether a device id is of a GPU in the table."""
        return bool(self._of_device(device))

    def find(self, device: str, subsystem: str | None) -> GpuProduct | None:
        """The product of a device id and subsystem ("10de:14a9"). Board vendors keep NVIDIA's subsystem device."""
        rows = self._of_device(device)
        exact = [row for row in rows if row.subsystem and row.subsystem.lower() == subsystem]
        part = (subsystem or "").rpartition(":")[2]
        alike = [row for row in rows if row.subsystem and row.subsystem.lower().rpartition(":")[2] == part]
        plain = [row for row in rows if not row.subsystem]
        return next(iter((*exact, *alike, *plain, *rows)), None)

    def lowest(self) -> str:
        """The lowest device id in the table."""
        return min(self.by_device, default="0000")

    def renamed(self, capability: str) -> str:
        """The other number of a compute capability: 11.0 for 10.1, as CUDA 12.8 and 12.9 call Thor; "" if none."""
        rows = self._matrix.rows("gpus", "compute_capabilities", _Capability)
        return next((row.also_known_as for row in rows if row.compute_capability == capability), "")

    def integrated(self) -> tuple[Integrated, ...]:
        return self._matrix.rows("gpus", "integrated", Integrated)


def gpu_of(product: GpuProduct, **seen: str | int | None) -> Gpu:
    """The Gpu of a product; ``seen`` are the fields that were read on the machine itself."""
    memory = round(product.memory_gib * 1024) if product.memory_gib else None
    known: dict[str, Any] = {
        "name": product.name,
        "pci_id": f"10de:{device_digits(product.device)}",
        "subsystem_id": product.subsystem or None,
        "architecture": product.architecture or None,
        "compute_capability": product.compute_capability or None,
        "nvenc": product.nvenc,
        "nvdec": product.nvdec,
        "memory_mib": memory,
        "kind": product.kind or None,
        "open_module": product.open_module or None,
        "fabric": product.fabric or None,
        "driver_first": product.driver_first or None,
        "driver_last": product.driver_last or None,
    }
    return Gpu(**{**known, **{name: value for name, value in seen.items() if value is not None}})


def integrated_gpu(row: Integrated) -> Gpu:
    """The Gpu of a Jetson module."""
    return Gpu(
        name=row.name,
        architecture=row.architecture or None,
        compute_capability=row.compute_capability or None,
        nvenc=row.nvenc,
        memory_mib=round(row.memory_gib * 1024) if row.memory_gib else None,
        kind=row.kind or None,
    )


def jetson_gpu(rows: tuple[Integrated, ...], chip: str | None, model: str | None) -> Gpu | None:
    """The Jetson's GPU by chip and model in the device tree; the common fields of several candidates."""
    same = [row for row in rows if chip and row.soc == chip]
    said = re.sub(r"[^a-z0-9]+", " ", (model or "").lower())
    named = [row for row in same if any(_words(name) in said for name in (row.name, *row.aliases))]
    longest = max(
        (len(_words(name)) for row in named for name in (row.name, *row.aliases) if _words(name) in said), default=0
    )
    best = [r for r in named if any(len(_words(n)) == longest and _words(n) in said for n in (r.name, *r.aliases))]
    found = best or same
    if not found:
        return None
    gpu = integrated_gpu(found[0])
    if len(found) == 1:
        return gpu
    shared = next(
        (a for a in found[0].aliases if all(a in row.aliases for row in found) and "jetson" in a.lower()), None
    )
    return Gpu(
        name=shared or f"Jetson ({chip})",
        architecture=gpu.architecture,
        compute_capability=gpu.compute_capability,
        kind=gpu.kind,
    )


def _words(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", name.lower())
