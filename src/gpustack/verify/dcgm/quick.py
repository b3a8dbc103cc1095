"""Quick checks of DCGM: installed, and compatible with the driver and the GPUs."""

from __future__ import annotations

from gpustack.verify.declare import Context, Outcome, check
from gpustack.verify.frame import companions, host_facts

DCGM = "DCGM"
no_dcgm = companions.absent("dcgm", DCGM)


@check(
    "dcgm.found",
    title="DCGM found",
    expects="DCGM is installed, and its version is known.",
    fix=companions.install("dcgm"),
    unless=(no_dcgm,),
)
def found(context: Context) -> Outcome:
    return companions.judge_version(context, "dcgm", DCGM)


@check(
    "dcgm.fit",
    title="compatible with the driver and the GPUs",
    expects="This DCGM is compatible with the driver and every GPU.",
    fix="Install a compatible DCGM: `gpustack install dcgm`.",
    needs=("dcgm.found",),
    unless=(no_dcgm, host_facts.no_gpu),
)
def fits(context: Context) -> Outcome:
    return companions.judge_companion(context, "dcgm", DCGM)
