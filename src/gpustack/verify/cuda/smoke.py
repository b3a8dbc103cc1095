"""Smoke checks of the CUDA toolkit: a program built by its nvcc, and run on every GPU."""

from gpustack.model.results import Measurement
from gpustack.system.run import Finished
from gpustack.verify.cuda.build import build
from gpustack.verify.cuda.errors import explain
from gpustack.verify.cuda.toolchain import select_compiler, select_toolkit
from gpustack.verify.declare import Context, Outcome, check, errored, failed, passed
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.commands import describe_end, evidence_of
from gpustack.verify.frame.probes import gpu_label, parse_lines


@check(
    "cuda.compile",
    level="smoke",
    title="nvcc builds a program",
    expects="nvcc builds a program for the host's GPUs with a host compiler that it supports.",
    fix="Install a toolkit and a compatible g++: `gpustack install cuda`.",
    needs=("cuda.toolkit",),
    limit_s=300.0,
)
def compiles(context: Context) -> Outcome:
    built = build(context, "vector.cu")
    if isinstance(built, Outcome):
        return built
    kit, host = select_toolkit(context), select_compiler(context)
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
    title="a CUDA program runs on every GPU",
    expects="A CUDA program built here computes correct results on every GPU.",
    fix="`gpustack verify driver --level smoke` shows what CUDA reports for each GPU.",
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
    """Judge the output of the program that adds vectors."""
    evidence = evidence_of(end, work=context.work)
    lines = parse_lines(end.out)
    broken = next((line for line in lines if "step" in line), None)
    if broken is not None:
        cause, fix = explain(int(broken["code"]), context, str(broken.get("name", "")))
        where = gpu_label(context.host, broken) if int(broken.get("gpu", -1)) >= 0 else "CUDA"
        return failed(f"{where}: {cause}", fix, evidence=evidence)
    if end.code is None:
        return errored(f"the program produced no output: {end.error}", evidence=evidence)
    ran = [line for line in lines if "wrong" in line]
    wrong = [line for line in ran if line["wrong"]]
    if wrong:
        return failed(
            f"{gpu_label(context.host, wrong[0])} computed wrong results: {wrong[0]['wrong']:,} of 1,048,576 sums",
            "take the GPU out of service and replace it",
            evidence=evidence,
        )
    if end.code != 0 or not ran:
        return failed(f"the program {describe_end(end)}", evidence=evidence)
    return passed(
        f"correct results on {', '.join(gpu_label(context.host, line) for line in ran)}",
        actual=f"{len(ran)} GPUs",
        evidence=evidence,
    )
