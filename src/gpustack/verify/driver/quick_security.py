"""Quick check of the driver: published security bulletins against it and the container toolkit."""

from __future__ import annotations

from gpustack.verify.declare import Context, Outcome, check, failed, needless, passed
from gpustack.verify.frame import host_facts

DENY = "deny-vulnerable"
"""The value from the command line that makes known vulnerabilities a failure."""


@check(
    "driver.security",
    title="no security bulletin names a later fixed release",
    expects="No published bulletin names a later fixed release than the driver or container toolkit installed here;"
    " a failure with --deny-vulnerable, else a remark.",
    fix="Install the fixed release that the reason names: `gpustack install driver container-toolkit`.",
)
def security(context: Context) -> Outcome:
    known = [host_facts.installed_version(context.host, name) for name in ("driver", "container-toolkit")]
    if not any(known):
        return needless("neither a driver nor the container toolkit of known version is installed")
    from gpustack.solve.security import of_host  # noqa: PLC0415 (imports the solver; not for a host with neither)

    found = of_host(context.matrix, context.host)
    if not found:
        return passed("no bulletin that is known names a later fixed release")
    reason = ". ".join(one.reason for one in found)
    if DENY not in context.given:
        return passed(f"warning: {reason}")
    wanted = " ".join(f"'{one.component}>={one.fixed}'" if one.fixed else one.component for one in found)
    return failed(reason, f"`gpustack install {wanted}`")
