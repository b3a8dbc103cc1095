"""Quick checks of the driver: messages in the kernel log since boot, and releases that go wrong on this very host."""

from __future__ import annotations

from gpustack.model.host import Host, Problem
from gpustack.verify.declare import Context, Outcome, check, failed, needless, passed
from gpustack.verify.frame import host_facts

_LOG = "kernel log"


def _problems(host: Host, *identities: str) -> tuple[Problem, ...]:
    return tuple(problem for problem in host.problems if problem.id in identities)


@check(
    "driver.kernel-log",
    title="kernel log since boot",
    expects="The kernel log has no GPU error: no RmInitAdapter, no Xid that indicates a hardware fault.",
    fix="Look up the Xid number; read the messages before it in `sudo dmesg`.",
    unless=(host_facts.no_gpu,),
)
def kernel_log(context: Context) -> Outcome:
    found = _problems(context.host, "detect-kernel-log", "detect-fabric-log")
    if found:
        return failed(found[0].message, found[0].fix)
    if context.host.looked is not None and _LOG in context.host.looked.at:
        return passed("no message that requires more than restarting programs")
    for command in (("dmesg",), ("journalctl", "--dmesg", "--boot", "--no-pager", "--output=short-iso")):
        end = context.run(*command, timeout=4.0)
        # A user without the right to read it gets an empty log and exit code 0 from journalctl.
        if end.code == 0 and len(end.out.splitlines()) > 1:
            from gpustack.verify.driver.kernel_log import judge_log  # noqa: PLC0415 (not for a host without GPU)

            return judge_log(context.matrix, end.out)
    if context.host.environment == "container":
        return needless(
            "this container has no permission to read its host's kernel log", "run `gpustack verify driver` on the host"
        )
    return needless("this user has no permission to read the kernel log", "run it with `sudo`")


@check(
    "driver.known-bad",
    title="no known trouble of this release with these GPUs",
    expects="No report is known of this driver release going wrong with these GPUs, kernel and module flavour.",
    fix="Set the module option, or install the release, that the reason names.",
    needs=("driver.module",),
    unless=(host_facts.foreign_driver, host_facts.no_gpu),
)
def known_bad(context: Context) -> Outcome:
    found = _problems(context.host, "detect-known-bad")
    if not found:
        return passed("nothing is known against this release on these GPUs")
    told = ". ".join(f"{one.message}: {one.fix}" if one.fix else one.message for one in found)
    return passed(f"warning: {told}")
