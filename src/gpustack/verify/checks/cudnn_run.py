"""Smoke and full checks of cuDNN: NVIDIA's sample where it is installed, else a network of gpustack's own."""

from __future__ import annotations

import msgspec

from gpustack.verify import samples, view
from gpustack.verify.build import Built, build
from gpustack.verify.checks.cudnn import INSTALL
from gpustack.verify.cudnn.answers import judge
from gpustack.verify.cudnn.static import build_static
from gpustack.verify.cudnn.vendor import vendor_sample
from gpustack.verify.declare import Context, Outcome, check, needless, passed, skipped
from gpustack.verify.toolchain import Home, homes


@check(
    "cudnn.mnist",
    level="smoke",
    title="a network reads digits through cuDNN",
    expects="A program built here against cuDNN reads every digit as it should.",
    mends="Keep one cuDNN, of the installed CUDA's major version: `gpustack install cudnn`.",
    needs=("cudnn.found", "cuda.compile", "driver.context"),
    unless=(view.no_gpu,),
    limit_s=420.0,
)
def mnist(context: Context) -> Outcome:
    found = homes(context, "cudnn.h", "libcudnn", "cudnn")
    if not found:
        return skipped("no cudnn.h with its library was found, so nothing can be built against cuDNN", INSTALL)
    vendor = vendor_sample(context, found[0])
    if isinstance(vendor, Outcome):
        return vendor
    outcome = own_sample(context, found[0], 0)
    if outcome.status == "pass" and vendor.reason:
        detail = f"{outcome.detail}; {vendor.reason}"
        return msgspec.structs.replace(outcome, detail=detail, evidence={**outcome.evidence, **vendor.evidence})
    return outcome


def own_sample(context: Context, home: Home, gpu: int, built: Built | None = None) -> Outcome:
    """Build the network against one copy of cuDNN, run it on one GPU, and judge its answers."""
    program = built or build(context, "digits.cpp", home, options=("-Wno-deprecated-declarations",))
    if isinstance(program, Outcome):
        return program
    samples.place(context.folder, "digits/network.f32", "digits/pictures.u8")
    end = context.run(str(program.program), str(context.folder), str(gpu), timeout=90.0, env=program.environment)
    return judge(context, home, end)


@check(
    "cudnn.copies",
    level="full",
    title="the network through every copy of cuDNN, on every GPU",
    expects="Every cuDNN that has headers, the system's and those of Python environments, works on every GPU.",
    mends="Remove the copies that do not work, or reinstall them: `gpustack install cudnn`.",
    needs=("cudnn.mnist",),
    unless=(view.no_gpu,),
    limit_s=900.0,
)
def every_copy(context: Context) -> Outcome:
    found = homes(context, "cudnn.h", "libcudnn", "cudnn")
    if not found:
        return skipped("no cudnn.h with its library was found", INSTALL)
    told: list[str] = []
    evidence: dict[str, str] = {}
    for home in found:
        program = build(context, "digits.cpp", home, options=("-Wno-deprecated-declarations",))
        if isinstance(program, Outcome):
            return program
        for number in range(len(view.own_gpus(context.host))):
            outcome = own_sample(context, home, number, program)
            if outcome.status != "pass":
                return msgspec.structs.replace(outcome, reason=f"{home.library}, GPU {number}: {outcome.reason}")
            evidence |= outcome.evidence
        told.append(str(home.library))
    gpus = len(view.own_gpus(context.host))
    return passed(f"{', '.join(told)}: right on {gpus} GPU{'s' if gpus > 1 else ''}", evidence=evidence)


@check(
    "cudnn.static",
    level="full",
    title="the network with cuDNN linked statically",
    expects="The network built against cuDNN's static libraries reads every digit as it should.",
    mends="Install the static libraries of cuDNN and cuBLAS of the same release.",
    needs=("cudnn.mnist",),
    unless=(view.no_gpu,),
    limit_s=600.0,
)
def static(context: Context) -> Outcome:
    home = next(iter(homes(context, "cudnn.h", "libcudnn", "cudnn")), None)
    if home is None:
        return needless("no cudnn.h with its library was found")
    built = build_static(context, home)
    return built if isinstance(built, Outcome) else own_sample(context, home, 0, built)
