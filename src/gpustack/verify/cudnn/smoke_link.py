"""Smoke check of cuDNN where there is no GPU: programs compile, link, and run up to the first call that needs one."""

from __future__ import annotations

import msgspec

from gpustack.verify import samples
from gpustack.verify.cuda.build import stops_at
from gpustack.verify.cuda.toolchain import find_homes
from gpustack.verify.cudnn.answers import judge
from gpustack.verify.cudnn.digits import build_digits
from gpustack.verify.cudnn.quick import INSTALL
from gpustack.verify.cudnn.vendor import run_vendor_sample
from gpustack.verify.declare import Context, Outcome, check, passed, skipped
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.commands import evidence_of


@check(
    "cudnn.link",
    level="smoke",
    title="programs compile and link with cuDNN",
    expects="Where there is no GPU, a program compiles and links with cuDNN, and starts.",
    fix="Install cuDNN with its headers, for the installed CUDA: `gpustack install cudnn`.",
    needs=("cudnn.found", "cuda.compile"),
    unless=(host_facts.has_gpu,),
    limit_s=420.0,
)
def link(context: Context) -> Outcome:
    home = next(iter(find_homes(context, "cudnn.h", "libcudnn", "cudnn")), None)
    if home is None:
        return skipped("no cudnn.h with its library was found to build with", INSTALL)
    vendor = run_vendor_sample(context, home)
    if isinstance(vendor, Outcome):
        return vendor
    built = build_digits(context, home)
    if isinstance(built, Outcome):
        return built
    samples.place(context.folder, "digits/network.f32", "digits/pictures.u8")
    end = context.run(str(built.program), str(context.folder), "0", timeout=90.0, env=built.environment)
    stop = stops_at(end)
    if stop is None:
        return judge(context, home, end)
    outcome = passed(f"{home.library}: {stop}", evidence=evidence_of(built.end, end, work=context.work))
    if vendor.reason:
        evidence = {**outcome.evidence, **vendor.evidence}
        return msgspec.structs.replace(outcome, detail=f"{outcome.detail}; {vendor.reason}", evidence=evidence)
    return outcome
