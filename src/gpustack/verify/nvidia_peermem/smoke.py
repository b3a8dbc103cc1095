"""Smoke check of nvidia_peermem: the module is loaded, next to an RDMA adapter."""

from __future__ import annotations

from gpustack.verify.declare import Context, Outcome, check, errored, failed, passed, skipped
from gpustack.verify.frame import companions, host_facts
from gpustack.verify.frame.commands import evidence_of

ADAPTERS = "/sys/class/infiniband"
MODULE = "nvidia_peermem"
_LOAD = (
    "`sudo modprobe nvidia_peermem`, and its name in a file of /etc/modules-load.d; where it names unknown symbols or"
    " an invalid argument, the driver was built before MLNX_OFED or DOCA: install the driver again after them"
)
_DMA_BUF = "; with open kernel modules NCCL uses DMA-BUF instead, which this check does not prove"


@check(
    "nvidia-peermem.loaded",
    level="smoke",
    title="nvidia_peermem is loaded next to an RDMA adapter",
    expects="The host has an RDMA adapter, and the module nvidia_peermem is loaded.",
    fix=_LOAD,
    needs=("nvidia-peermem.driver", "driver.module"),
    unless=(host_facts.no_gpu,),
)
def loaded(context: Context) -> Outcome:
    end = context.run("ls", ADAPTERS, timeout=5.0)
    evidence = evidence_of(end, work=context.work)
    if end.code is None:
        return errored(f"ls: {end.error}", evidence=evidence)
    adapters = ", ".join(end.out.split()[:8])
    if not adapters:
        return skipped(f"{ADAPTERS} has no RDMA adapter, so nothing uses the module")
    version = companions.loaded_version(context, MODULE)
    if version is None:
        module = context.host.module
        instead = _DMA_BUF if module is not None and module.flavour == "open" else ""
        return failed(f"{MODULE} is not loaded, and the host has {adapters}{instead}", evidence=evidence)
    return passed(f"{MODULE} {version}; {adapters}; no transfer was made", evidence=evidence)
