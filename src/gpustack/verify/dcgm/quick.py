"""Quick checks of DCGM: installed, and compatible with the driver and the GPUs."""

from __future__ import annotations

from gpustack.model.host import Host
from gpustack.verify.declare import Context, Outcome, check, passed, skipped
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.rules import Part, compute_capability_of, judge_fit

INSTALL = "`gpustack install dcgm`"


def no_dcgm(host: Host) -> Outcome | None:
    """A skip where DCGM is not installed."""
    return None if "dcgm" in host.installed else skipped("no DCGM was found", INSTALL)


@check(
    "dcgm.found",
    title="DCGM found",
    expects="DCGM is installed, and its version is known.",
    fix=INSTALL,
    unless=(no_dcgm,),
)
def found(context: Context) -> Outcome:
    number = host_facts.installed_version(context.host, "dcgm")
    return passed(number, actual=number) if number else skipped("the version of DCGM is unknown")


@check(
    "dcgm.fit",
    title="compatible with the driver and the GPUs",
    expects="This DCGM is compatible with the driver and every GPU.",
    fix="Install a compatible DCGM: `gpustack install dcgm`.",
    needs=("dcgm.found",),
    unless=(no_dcgm, host_facts.no_gpu),
)
def fits(context: Context) -> Outcome:
    number, driver = host_facts.installed_version(context.host, "dcgm"), host_facts.driver_version(context.host)
    if number is None:
        return skipped("the version of DCGM is unknown")
    if driver is None:
        return host_facts.no_driver(context.host)
    others = [Part("driver", driver), *filter(None, map(compute_capability_of, host_facts.own_gpus(context.host)))]
    return judge_fit(context, Part("dcgm", number), *others, fix=INSTALL, needs_all=False)
