"""Quick check of nvidia_peermem: the driver has this module."""

from __future__ import annotations

from gpustack.verify.declare import Context, Outcome, check, failed, passed
from gpustack.verify.frame import host_facts
from gpustack.versions import is_within


@check(
    "nvidia-peermem.driver",
    title="the driver has nvidia_peermem",
    expects="The driver is of branch 470 or later, which contain the module nvidia_peermem.",
    fix="`gpustack install driver`",
    unless=(host_facts.no_gpu,),
)
def driver(context: Context) -> Outcome:
    number = host_facts.driver_version(context.host)
    if number is None:
        return host_facts.no_driver(context.host)
    if not is_within(number, ">=470"):
        return failed(f"driver {number} has no nvidia_peermem, which begins with branch 470", actual=number)
    return passed(number, actual=number)
