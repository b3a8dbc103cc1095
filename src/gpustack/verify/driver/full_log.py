"""Full check of the driver: messages about the GPUs in the kernel log since boot."""

from __future__ import annotations

from gpustack.verify.declare import Context, Outcome, check, needless, skipped
from gpustack.verify.driver.kernel_log import judge_log
from gpustack.verify.frame import host_facts


@check(
    "driver.kernel-log",
    level="full",
    title="kernel log since boot",
    expects="The kernel log has no GPU error: no RmInitAdapter, no Xid that indicates a hardware fault.",
    fix="Look up the Xid number; read the messages before it in `sudo dmesg`.",
    unless=(host_facts.no_gpu,),
    limit_s=30.0,
)
def kernel_log(context: Context) -> Outcome:
    for command in (("journalctl", "--dmesg", "--boot", "--no-pager", "--output=short-iso"), ("dmesg",)):
        end = context.run(*command, timeout=12.0)
        # A user without the right to read it gets an empty log and exit code 0 from journalctl.
        if end.code == 0 and len(end.out.splitlines()) > 1:
            return judge_log(context.matrix, end.out)
    if context.host.environment == "container":
        return needless(
            "this container has no permission to read its host's kernel log",
            "run `gpustack verify driver --level full` on the host",
        )
    return skipped("this user has no permission to read the kernel log", "run it with `sudo`")
