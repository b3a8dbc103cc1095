"""Smoke check of NCCL that needs no compiler: an all-reduce by each library that programs load."""

from __future__ import annotations

from gpustack.verify.cuda.libraries import of_programs, prove
from gpustack.verify.declare import Context, Outcome, check, failed
from gpustack.verify.frame import host_facts
from gpustack.verify.nccl.all_reduce import DEBUG
from gpustack.verify.nccl.quick import INSTALL


@check(
    "nccl.library",
    level="smoke",
    title="an all-reduce through the library itself",
    expects="The NCCL that programs load, and that of each Python environment, sums correctly over all GPUs.",
    fix=DEBUG,
    needs=("nccl.found", "driver.context"),
    unless=(host_facts.no_gpu,),
    limit_s=240.0,
)
def library(context: Context) -> Outcome:
    return prove(context, "nccl", of_programs(context, "nccl"), INSTALL, _failure)


def _failure(name: str, call: str, evidence: dict[str, str]) -> Outcome:
    return failed(f"{call} fails with {name!r}", DEBUG, evidence=evidence)
