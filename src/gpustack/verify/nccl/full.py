"""Full check of NCCL: the bandwidth of an all-reduce over all GPUs."""

from __future__ import annotations

from gpustack.verify.declare import Context, Outcome, check, needless
from gpustack.verify.frame import host_facts
from gpustack.verify.nccl.all_reduce import DEBUG, run

_TIMED_MIB = 512


@check(
    "nccl.bandwidth",
    level="full",
    title="bus bandwidth of the all-reduce",
    expects="An all-reduce over all GPUs gives the right sum, at a bandwidth that is told.",
    mends=DEBUG,
    needs=("nccl.all-reduce",),
    unless=(host_facts.no_gpu,),
    limit_s=300.0,
    alone=True,
)
def bandwidth(context: Context) -> Outcome:
    if len(host_facts.own_gpus(context.host)) < 2:
        return needless("one GPU has no other to talk to")
    return run(context, _TIMED_MIB)
