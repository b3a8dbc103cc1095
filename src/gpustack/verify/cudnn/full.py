"""Full checks of cuDNN: the network through every copy, on every GPU, and linked statically."""

from __future__ import annotations

import msgspec

from gpustack.verify.cuda.toolchain import find_homes
from gpustack.verify.cudnn.digits import build_digits, run_digits
from gpustack.verify.cudnn.quick import INSTALL
from gpustack.verify.cudnn.static import build_static
from gpustack.verify.declare import Context, Outcome, check, needless, passed, skipped
from gpustack.verify.frame import host_facts


@check(
    "cudnn.copies",
    level="full",
    title="every copy of cuDNN works on every GPU",
    expects="Every cuDNN with headers, in the system or in a Python environment, works on every GPU.",
    fix="Remove the copies that do not work, or reinstall them: `gpustack install cudnn`.",
    needs=("cudnn.mnist",),
    unless=(host_facts.no_gpu,),
    limit_s=900.0,
)
def every_copy(context: Context) -> Outcome:
    found = find_homes(context, "cudnn.h", "libcudnn", "cudnn")
    if not found:
        return skipped("no cudnn.h with its library was found", INSTALL)
    checked: list[str] = []
    evidence: dict[str, str] = {}
    for home in found:
        program = build_digits(context, home)
        if isinstance(program, Outcome):
            return program
        for number in range(len(host_facts.own_gpus(context.host))):
            outcome = run_digits(context, home, number, program)
            if outcome.status != "pass":
                return msgspec.structs.replace(outcome, reason=f"{home.library}, GPU {number}: {outcome.reason}")
            evidence |= outcome.evidence
        checked.append(str(home.library))
    gpus = len(host_facts.own_gpus(context.host))
    return passed(f"{', '.join(checked)}: correct on {gpus} GPU{'s' if gpus > 1 else ''}", evidence=evidence)


@check(
    "cudnn.static",
    level="full",
    title="cuDNN linked statically works",
    expects="A program linked with cuDNN's static libraries recognizes every digit correctly.",
    fix="Install the static libraries of cuDNN and cuBLAS from the same release.",
    needs=("cudnn.mnist",),
    unless=(host_facts.no_gpu,),
    limit_s=600.0,
)
def static(context: Context) -> Outcome:
    home = next(iter(find_homes(context, "cudnn.h", "libcudnn", "cudnn")), None)
    if home is None:
        return needless("no cudnn.h with its library was found")
    built = build_static(context, home)
    return built if isinstance(built, Outcome) else run_digits(context, home, 0, built)
