"""Smoke check of NCCL: an all-reduce over all GPUs gives the right sums."""

from __future__ import annotations

from gpustack.verify.declare import Context, Outcome, check
from gpustack.verify.frame import host_facts
from gpustack.verify.nccl.all_reduce import DEBUG, run


@check(
    "nccl.all-reduce",
    level="smoke",
    title="all-reduce over all GPUs",
    expects="An all-reduce over all GPUs returns the correct sum on each.",
    fix=DEBUG,
    needs=("nccl.found", "cuda.compile", "driver.context"),
    unless=(host_facts.no_gpu,),
    limit_s=300.0,
)
def all_reduce(context: Context) -> Outcome:
    return run(context, 0)
