"""Smoke check of cuDNN that needs no compiler: a convolution by each library that programs load."""

from __future__ import annotations

from gpustack.verify.cuda.libraries import of_programs, prove
from gpustack.verify.cudnn.answers import status_failure
from gpustack.verify.cudnn.quick import INSTALL
from gpustack.verify.declare import Context, Outcome, check
from gpustack.verify.frame import host_facts


@check(
    "cudnn.library",
    level="smoke",
    title="a convolution through the library itself",
    expects="The cuDNN that programs load, and that of each Python environment, computes correctly on every GPU.",
    fix="Keep one cuDNN, for the installed CUDA: `gpustack install cudnn`.",
    needs=("cudnn.found", "driver.context"),
    unless=(host_facts.no_gpu,),
    limit_s=240.0,
)
def library(context: Context) -> Outcome:
    return prove(context, "cudnn", of_programs(context, "cudnn"), INSTALL, status_failure)
