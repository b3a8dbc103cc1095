"""Quick checks of GPUDirect Storage: installed, and compatible with the driver and the GPUs."""

from __future__ import annotations

from gpustack.verify.declare import Context, Outcome, check
from gpustack.verify.frame import companions, host_facts

GDS = "GPUDirect Storage"
no_gds = companions.absent("gds", GDS)


@check(
    "gds.found",
    title="GPUDirect Storage found",
    expects="GPUDirect Storage is installed, and its version is known.",
    fix=companions.install("gds"),
    unless=(no_gds,),
)
def found(context: Context) -> Outcome:
    return companions.judge_version(context, "gds", GDS)


@check(
    "gds.fit",
    title="compatible with the driver and the GPUs",
    expects="This GPUDirect Storage is compatible with the driver and every GPU.",
    fix="Install a compatible release: `gpustack install gds`.",
    needs=("gds.found",),
    unless=(no_gds, host_facts.no_gpu),
)
def fits(context: Context) -> Outcome:
    return companions.judge_companion(context, "gds", GDS)
