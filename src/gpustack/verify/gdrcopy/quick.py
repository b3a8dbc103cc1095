"""Quick checks of GDRCopy: installed, and compatible with the driver and the GPUs."""

from __future__ import annotations

from gpustack.verify.declare import Context, Outcome, check
from gpustack.verify.frame import companions, host_facts

GDRCOPY = "GDRCopy"
INSTALL = "install its packages from https://developer.download.nvidia.com/compute/redist/gdrcopy/"
no_gdrcopy = companions.absent("gdrcopy", GDRCOPY, INSTALL)


@check(
    "gdrcopy.found",
    title="GDRCopy found",
    expects="GDRCopy is installed, and its version is known.",
    fix=INSTALL,
    unless=(no_gdrcopy,),
)
def found(context: Context) -> Outcome:
    return companions.judge_version(context, "gdrcopy", GDRCOPY)


@check(
    "gdrcopy.fit",
    title="compatible with the driver and the GPUs",
    expects="This GDRCopy is compatible with the driver and every GPU.",
    fix=f"Take a compatible release: {INSTALL}.",
    needs=("gdrcopy.found",),
    unless=(no_gdrcopy, host_facts.no_gpu),
)
def fits(context: Context) -> Outcome:
    return companions.judge_companion(context, "gdrcopy", GDRCOPY, fix=INSTALL)
