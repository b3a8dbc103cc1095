"""Full check of torch: an all-reduce, the number formats that the GPUs have, rates, and a compiled function."""

from __future__ import annotations

from gpustack.verify.declare import Context, Outcome, check
from gpustack.verify.frame import host_facts
from gpustack.verify.frameworks.probe import prove


@check(
    "torch.rates",
    level="full",
    title="torch reduces, compiles, and computes in every number format",
    expects="fp32, fp16, bf16 and fp8, where a GPU has them, an all-reduce and a compiled function are correct.",
    fix="`gpustack detect` lists what is wrong in each environment.",
    needs=("torch.compute",),
    unless=(host_facts.no_gpu,),
    limit_s=600.0,
    alone=True,
)
def rates(context: Context) -> Outcome:
    return prove(context, "torch", "full")
