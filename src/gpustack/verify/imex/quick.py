"""Quick checks of IMEX: installed, and in the version of the driver."""

from __future__ import annotations

from gpustack.verify.declare import Context, Outcome, check
from gpustack.verify.frame import companions, host_facts

IMEX = "IMEX"
no_imex = companions.absent("imex", IMEX)


@check(
    "imex.found",
    title="IMEX found",
    expects="IMEX is installed, and its version is known.",
    fix=companions.install("imex"),
    unless=(no_imex,),
)
def found(context: Context) -> Outcome:
    return companions.judge_version(context, "imex", IMEX)


@check(
    "imex.fit",
    title="in the version of the driver",
    expects="IMEX has the version of the driver.",
    fix="Install IMEX in the driver's version: `gpustack install imex`.",
    needs=("imex.found",),
    unless=(no_imex, host_facts.no_gpu),
)
def fits(context: Context) -> Outcome:
    return companions.judge_companion(context, "imex", IMEX, with_gpus=False)
