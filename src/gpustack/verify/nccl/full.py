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
    expects="An all-reduce over all GPUs returns the correct sum; the bandwidth is reported.",
    fix=DEBUG,
    needs=("nccl.all-reduce",),
    unless=(host_facts.no_gpu,),
    limit_s=300.0,
    alone=True,
)
def bandwidth(context: Context) -> Outcome:
    if len(host_facts.own_gpus(context.host)) < 2:
        return needless("an all-reduce requires at least two GPUs")
    return run(context, _TIMED_MIB)
