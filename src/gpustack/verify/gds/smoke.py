"""Smoke check of GPUDirect Storage: its kernel module, and storage, GPUs and IOMMU by `gdscheck -p`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gpustack.system.run import Finished
from gpustack.verify.declare import Context, Outcome, check, errored, failed, passed
from gpustack.verify.frame import companions, host_facts
from gpustack.verify.frame.commands import evidence_of, first_line
from gpustack.verify.gds.quick import no_gds

MODULE = "nvidia_fs"
_LOAD = "`sudo modprobe nvidia_fs`; if the module does not exist, `dkms status` says why"
_STORAGE = (
    "NVMe needs MLNX_OFED or DOCA with GPUDirect Storage, or PCI P2PDMA of the kernel:"
    " https://docs.nvidia.com/gpudirect-storage/troubleshooting-guide/"
)
_SUCCESS = "Platform verification succeeded"


class Said(Struct, frozen=True, kw_only=True):
    """What gdscheck says: storage by the way that its data takes, GPUs with and without support, and the IOMMU."""

    storage: dict[str, str]
    supported: int
    others: tuple[str, ...]
    has_iommu: bool
    is_verified: bool

    @property
    def direct(self) -> dict[str, str]:
        """Storage whose data reaches GPUs directly: "Supported", or from GDS 1.16 on the modes."""
        ways = ("Supported", "nvfs", "p2pdma")
        return {name: way for name, way in self.storage.items() if set(re.split(r"[,\s]+", way)) & set(ways)}


def read_gdscheck(text: str) -> Said:
    """The output of ``gdscheck -p``, of GDS 0.9 to 1.16."""
    lines = [line.strip() for line in text.splitlines()]
    gpus = [line for line in lines if line.startswith("GPU index ")]
    return Said(
        storage=dict(_storage(lines)),
        supported=sum("supports GDS" in line for line in gpus),
        others=tuple(line for line in gpus if "supports GDS" not in line),
        has_iommu=any(re.fullmatch(r"IOMMU\s*:\s*enabled.*", line, re.IGNORECASE) for line in lines),
        is_verified=any(line.startswith(_SUCCESS) for line in lines),
    )


def _storage(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        match = re.fullmatch(r"([A-Z][\w /-]*?)\s*:\s*(Supported|Unsupported|(?:nvfs|p2pdma|compat)[\w, ]*)", line)
        if match:
            yield match[1], match[2]


@check(
    "gds.gdscheck",
    level="smoke",
    title="storage reaches the GPUs directly",
    expects="The kernel module is loaded, and `gdscheck -p` finds storage and GPUs for direct reads and writes.",
    fix=_LOAD,
    needs=("gds.found", "driver.module"),
    unless=(no_gds, host_facts.no_gpu),
    limit_s=60.0,
)
def gdscheck(context: Context) -> Outcome:
    end = _run(context)
    evidence = evidence_of(end, work=context.work)
    if end.code is None:
        return errored(f"gdscheck: {end.error}", evidence=evidence)
    said, version = read_gdscheck(end.out), companions.loaded_version(context, MODULE)
    if version is None and not any("p2pdma" in way for way in said.storage.values()):
        return failed(f"the kernel module {MODULE} is not loaded", _LOAD, evidence=evidence)
    if not said.is_verified:
        return failed(f"gdscheck did not verify the platform: {_complaint(end)}", evidence=evidence)
    if said.others or not said.supported:
        reason = said.others[0] if said.others else "it lists no GPU"
        return failed(f"gdscheck finds a GPU without GPUDirect Storage: {reason}", evidence=evidence)
    if not said.direct:
        return failed(f"no storage reaches GPUs directly: {_listed(said.storage)}", _STORAGE, evidence=evidence)
    module = f"{MODULE} {version}" if version is not None else f"no {MODULE}"
    remark = "; the IOMMU is on, which slows direct transfers or stops them" if said.has_iommu else ""
    number = f"{said.supported} GPU{'' if said.supported == 1 else 's'}"
    return passed(f"{_listed(said.direct)}; {number}; {module}{remark}", evidence=evidence)


def _run(context: Context) -> Finished:
    """``gdscheck -p``, of the toolkit that is the default here, else of the search path."""
    toolkit = context.host.installed.get("cuda")
    folder = toolkit.path if toolkit is not None and toolkit.path else "/usr/local/cuda"
    end = context.run(f"{folder}/gds/tools/gdscheck", "-p", timeout=50.0)
    return end if end.code is not None else context.run("gdscheck", "-p", timeout=50.0)


def _complaint(end: Finished) -> str:
    found = re.search(r"^\s*(Platform verification .*)$", end.out, re.MULTILINE)
    return found[1] if found else first_line(end)


def _listed(storage: dict[str, str]) -> str:
    return ", ".join(f"{name} {way}" for name, way in storage.items()) or "gdscheck lists none"
