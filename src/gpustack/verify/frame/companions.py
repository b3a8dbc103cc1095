"""What the checks of DCGM, GDRCopy, GPUDirect Storage and IMEX share: presence, compatibility, kernel modules."""

from __future__ import annotations

from collections.abc import Callable

from gpustack.model.host import Host
from gpustack.verify.declare import Context, Outcome, passed, skipped
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.rules import Part, compute_capability_of, judge_fit


def absent(component: str, called: str, fix: str = "") -> Callable[[Host], Outcome | None]:
    """The condition under which there is nothing to check: the component is not installed."""

    def condition(host: Host) -> Outcome | None:
        return None if component in host.installed else skipped(f"no {called} was found", fix or install(component))

    return condition


def install(component: str) -> str:
    """The command that installs a component, in backquotes."""
    return f"`gpustack install {component}`"


def judge_version(context: Context, component: str, called: str) -> Outcome:
    """A pass with the version that is installed."""
    number = host_facts.installed_version(context.host, component)
    return passed(number, actual=number) if number else skipped(f"the version of {called} is unknown")


def judge_companion(context: Context, component: str, called: str, *, with_gpus: bool = True, fix: str = "") -> Outcome:
    """Whether a component is compatible with the driver, and with every GPU."""
    number, driver = host_facts.installed_version(context.host, component), host_facts.driver_version(context.host)
    if number is None:
        return skipped(f"the version of {called} is unknown")
    if driver is None:
        return host_facts.no_driver(context.host)
    gpus = host_facts.own_gpus(context.host) if with_gpus else ()
    others = [Part("driver", driver), *filter(None, map(compute_capability_of, gpus))]
    return judge_fit(context, Part(component, number), *others, fix=fix or install(component), needs_all=False)


def loaded_version(context: Context, module: str) -> str | None:
    """The version of a loaded kernel module that names one; None if it is not loaded."""
    end = context.run("cat", f"/sys/module/{module}/version", timeout=5.0)
    return end.out.strip() if end.code == 0 else None
