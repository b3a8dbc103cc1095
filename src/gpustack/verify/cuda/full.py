"""Full checks of the CUDA toolkit: copies between host and GPUs, measured."""

from __future__ import annotations

from gpustack.verify.cuda.measure import measure_gpus
from gpustack.verify.declare import Context, Outcome, check, passed
from gpustack.verify.frame import host_facts


@check(
    "cuda.copies",
    level="full",
    title="copies between host and GPUs, and between GPUs",
    expects="Copies to and from every GPU, and between GPUs, succeed.",
    fix="`gpustack verify driver --level smoke` shows what CUDA reports for each GPU.",
    needs=("cuda.run",),
    unless=(host_facts.no_gpu,),
    limit_s=600.0,
    alone=True,
)
def copies(context: Context) -> Outcome:
    answer = measure_gpus(context)
    if isinstance(answer, Outcome):
        return answer
    found = {
        f"gpu{number}-{name}": value
        for number, one in enumerate(answer)
        for name, value in one.values.items()
        if "copy-" in name or "-to-" in name
    }
    detail = ", ".join(f"{name} {float(one.value):.4g} {one.unit}".rstrip() for name, one in found.items())
    return passed(
        detail, measurements=found, evidence={name: text for one in answer for name, text in one.evidence.items()}
    )
