"""Smoke check of NCCL where there is no GPU: a program compiles, links, and runs up to the first call of CUDA."""

from __future__ import annotations

from gpustack.verify.declare import Context, Outcome, check
from gpustack.verify.frame import host_facts
from gpustack.verify.nccl.all_reduce import run
from gpustack.verify.nccl.quick import INSTALL


@check(
    "nccl.link",
    level="smoke",
    title="programs compile and link with NCCL",
    expects="Where there is no GPU, a program compiles and links with NCCL, and starts.",
    fix=f"Install NCCL with its headers, for the installed CUDA: {INSTALL}.",
    needs=("nccl.found", "cuda.compile"),
    unless=(host_facts.has_gpu,),
    limit_s=300.0,
)
def link(context: Context) -> Outcome:
    return run(context, 0)
