"""A full check of the driver: what the kernel's log says of the GPUs since boot."""

from __future__ import annotations

from gpustack.verify.declare import Context, Outcome, check, needless, skipped
from gpustack.verify.driver.kernel_log import judge_log
from gpustack.verify.frame import host_facts


@check(
    "driver.kernel-log",
    level="full",
    title="the kernel's log since boot",
    expects="The kernel's log holds no error of a GPU: no RmInitAdapter, no Xid that speaks of the board.",
    mends="Look up the Xid's number; read the lines before it in `sudo dmesg`.",
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
            "the kernel's log is the machine's below the container, and this container may not read it",
            "`gpustack verify driver --level full` on that machine reads it",
        )
    return skipped("the kernel's log cannot be read by this user", "run it with `sudo`")
