"""Full checks of frameworks: an all-reduce, the number formats that the GPUs have, rates, and a compiled function."""

from __future__ import annotations

from functools import partial

from gpustack.verify.declare import Context, Outcome, check
from gpustack.verify.frame import host_facts
from gpustack.verify.frameworks.places import TITLES
from gpustack.verify.frameworks.probe import prove

EXPECTS = {
    "torch": "fp32, fp16, bf16 and fp8, where a GPU has them, an all-reduce and a compiled function are correct.",
    "tensorflow": "fp32, fp16 and bf16, an all-reduce and a function compiled by XLA are correct.",
    "jax": "fp32, fp16 and bf16, compiled by XLA, and a sum over all GPUs are correct.",
    "onnxruntime-gpu": "Matrix products in fp32 and fp16 by the provider for CUDA are correct.",
    "cupy": "fp32 and fp16, and an all-reduce by NCCL, are correct.",
}


def _rates(context: Context, component: str) -> Outcome:
    return prove(context, component, "full")


for _name, _expected in EXPECTS.items():
    check(
        f"{_name}.rates",
        level="full",
        title=f"{TITLES[_name]} reduces, compiles, and computes in every number format",
        expects=_expected,
        fix="`gpustack detect` lists what is wrong in each environment.",
        needs=(f"{_name}.compute",),
        unless=(host_facts.no_gpu,),
        limit_s=600.0,
        alone=True,
    )(partial(_rates, component=_name))
