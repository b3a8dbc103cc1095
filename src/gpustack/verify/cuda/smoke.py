"""Smoke checks of the CUDA toolkit: a program built by its nvcc, and run on every GPU."""

from __future__ import annotations

from gpustack.model.results import Measurement
from gpustack.system.run import Finished
from gpustack.verify.cuda.build import build
from gpustack.verify.cuda.errors import explained
from gpustack.verify.cuda.toolchain import compiler, toolkit
from gpustack.verify.declare import Context, Outcome, check, errored, failed, passed
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.commands import ended, evidence_of
from gpustack.verify.frame.probes import gpu_called, lines_of


@check(
    "cuda.compile",
    level="smoke",
    title="nvcc builds a program",
    expects="nvcc builds a program for the GPUs here with a host compiler that it accepts.",
    mends="Install a toolkit and a g++ that go together: `gpustack install cuda`.",
    needs=("cuda.toolkit",),
    limit_s=300.0,
)
def compiles(context: Context) -> Outcome:
    built = build(context, "vector.cu")
    if isinstance(built, Outcome):
        return built
    kit, host = toolkit(context), compiler(context)
    release = kit.version if kit else ""
    return passed(
        f"{kit.nvcc if kit else 'nvcc'} {release} with {host.path} {host.version}".rstrip(),
        actual=release,
        measurements={"compile-time": Measurement(value=round(built.end.seconds, 2), unit="s")},
        evidence=evidence_of(built.end, work=context.work),
    )


@check(
    "cuda.run",
    level="smoke",
    title="the program runs on every GPU",
    expects="A program built here adds vectors rightly on every GPU.",
    mends="`gpustack verify driver --level smoke` tells what CUDA answers on each GPU.",
    needs=("cuda.compile", "driver.context"),
    unless=(host_facts.no_gpu,),
    limit_s=300.0,
)
def runs(context: Context) -> Outcome:
    built = build(context, "vector.cu")
    if isinstance(built, Outcome):
        return built
    return judge(context, context.run(str(built.program), timeout=60.0, env=built.environment))


def judge(context: Context, end: Finished) -> Outcome:
    """What the program that adds vectors answered."""
    evidence = evidence_of(end, work=context.work)
    lines = lines_of(end.out)
    broken = next((line for line in lines if "step" in line), None)
    if broken is not None:
        cause, fix = explained(int(broken["code"]), context, str(broken.get("name", "")))
        where = gpu_called(context.host, broken) if int(broken.get("gpu", -1)) >= 0 else "CUDA"
        return failed(f"{where}: {cause}", fix, evidence=evidence)
    if end.code is None:
        return errored(f"the program gave no answer: {end.error}", evidence=evidence)
    ran = [line for line in lines if "wrong" in line]
    wrong = [line for line in ran if line["wrong"]]
    if wrong:
        return failed(
            f"{gpu_called(context.host, wrong[0])} adds wrongly: {wrong[0]['wrong']} of 1048576 sums",
            "the GPU computes wrongly: take it out of use and have it replaced",
            evidence=evidence,
        )
    if end.code != 0 or not ran:
        return failed(f"the program {ended(end)}", evidence=evidence)
    return passed(
        f"right sums on {', '.join(gpu_called(context.host, line) for line in ran)}",
        actual=f"{len(ran)} GPUs",
        evidence=evidence,
    )
