"""Smoke checks of CUDA that need no compiler: gpustack's own kernel, and a product of matrices by cuBLAS."""

from gpustack.verify.cuda.libraries import of_cublas, prove
from gpustack.verify.cuda.quick import INSTALL
from gpustack.verify.cuda.toolchain import select_toolkit
from gpustack.verify.declare import Context, Outcome, check, needless
from gpustack.verify.driver.smoke_sums import judge_sums
from gpustack.verify.frame import host_facts


@check(
    "cuda.ptx",
    level="smoke",
    title="a kernel computes on every GPU without a toolkit",
    expects="Where no nvcc is installed, the driver compiles gpustack's own PTX, and every GPU adds correctly.",
    fix="`gpustack verify driver --level smoke` shows what CUDA reports for each GPU.",
    needs=("driver.context",),
    unless=(host_facts.no_gpu,),
    limit_s=120.0,
)
def ptx(context: Context) -> Outcome:
    if select_toolkit(context) is not None:
        return needless("nvcc is installed: cuda.run computes with what it builds")
    return judge_sums(context)


@check(
    "cuda.blas",
    level="smoke",
    title="cuBLAS multiplies matrices on every GPU",
    expects="The cuBLAS of the toolkit, and that of each Python environment, computes correctly on every GPU.",
    fix="Install the CUDA libraries of one release: `gpustack install cuda`.",
    needs=("driver.context",),
    unless=(host_facts.no_gpu,),
    limit_s=240.0,
)
def blas(context: Context) -> Outcome:
    return prove(context, "cublas", of_cublas(context), INSTALL)
