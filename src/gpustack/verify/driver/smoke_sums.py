"""Smoke checks of the driver that need no compiler: right sums by gpustack's own kernel, and what disturbs programs."""

from __future__ import annotations

from gpustack.verify.cuda.errors import explain
from gpustack.verify.declare import Context, Outcome, check, failed, passed, skipped
from gpustack.verify.driver.smoke import probe_cuda
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.commands import evidence_of
from gpustack.verify.frame.probes import gpu_label, parse_lines
from gpustack.verify.frame.surroundings import set_here

_NO_BINARY = 209
_OLDEST = (5, 0)
"""The compute capability that the PTX is for: no driver compiles it for an older GPU."""


@check(
    "driver.sums",
    level="smoke",
    title="a kernel computes on every GPU",
    expects="The driver compiles gpustack's own PTX for every GPU, and each adds 262,144 numbers correctly.",
    fix="Follow the fix shown with the error; otherwise check `sudo dmesg` for NVRM and Xid messages.",
    needs=("driver.context",),
    unless=(host_facts.no_gpu,),
    limit_s=120.0,
)
def sums(context: Context) -> Outcome:
    return judge_sums(context)


def judge_sums(context: Context) -> Outcome:
    """What the kernel computed on each GPU."""
    end = probe_cuda(context)
    lines = parse_lines(end.out)
    evidence = evidence_of(end, work=context.work)
    begun = [line for line in lines if line.get("step") == "adds"]
    done = {line["gpu"]: line for line in lines if line.get("step") == "added"}
    old: list[str] = []
    for line in begun:
        called = gpu_label(context.host, line)
        answer = done.get(line["gpu"])
        if answer is None:
            return failed(
                f"{called} does not end a kernel that takes a moment: no answer within {end.seconds:.0f} s",
                "check `sudo dmesg` for Xid messages; stop the programs on that GPU and reset it, or reboot",
                evidence=evidence,
            )
        if answer["code"] == _NO_BINARY and _is_older(context, line):
            old.append(called)
            continue
        if answer["code"]:
            cause, fix = explain(answer["code"], context, answer["name"])
            log = f"; the driver's compiler says: {answer['log']}" if answer.get("log") else ""
            return failed(f"{called}, {answer['at']}: {cause}{log}", fix, evidence=evidence)
        if answer["wrong"]:
            return failed(
                f"{called} computed wrong results: {answer['wrong']:,} of 262,144 sums",
                "take the GPU out of service and replace it",
                evidence=evidence,
            )
    right = [gpu_label(context.host, line) for line in begun if gpu_label(context.host, line) not in old]
    if not right:
        return skipped(
            f"{', '.join(old)}: older than the compute capability 5.0 that gpustack's kernel is for"
            if old
            else "CUDA lists no GPU to compute on"
        )
    also = f"; not run on {', '.join(old)}, which is older than compute capability 5.0" if old else ""
    return passed(f"correct sums on {', '.join(right)}{also}", actual=f"{len(right)} GPUs", evidence=evidence)


def _is_older(context: Context, line: dict[str, object]) -> bool:
    """Whether the tables say that the GPU cannot take the PTX."""
    called = gpu_label(context.host, line)
    own = next((one for one in context.host.gpus if host_facts.name_of(one) == called), None)
    numbers = (own.compute_capability if own else None) or ""
    return bool(numbers) and tuple(int(part) for part in numbers.split(".")) < _OLDEST


@check(
    "driver.environment",
    level="smoke",
    title="environment variables that change what programs see",
    expects="Variables that disturb programs on GPUs are named; a check that they make fail names them again.",
    fix="Unset the variables, then verify again.",
    unless=(host_facts.no_gpu,),
)
def environment(context: Context) -> Outcome:
    found = set_here(context)
    return passed("; ".join(found) or "none is set")
