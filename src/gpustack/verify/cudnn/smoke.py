"""Smoke check of cuDNN: NVIDIA's sample where it is installed, and a network of gpustack's own."""

from __future__ import annotations

import msgspec

from gpustack.verify.cuda.toolchain import find_homes
from gpustack.verify.cudnn.digits import run_digits
from gpustack.verify.cudnn.quick import INSTALL
from gpustack.verify.cudnn.vendor import run_vendor_sample
from gpustack.verify.declare import Context, Outcome, check, skipped
from gpustack.verify.frame import host_facts


@check(
    "cudnn.mnist",
    level="smoke",
    title="a network recognizes digits through cuDNN",
    expects="A program built here with cuDNN recognizes every digit correctly.",
    fix="Keep one cuDNN, for the installed CUDA: `gpustack install cudnn`.",
    needs=("cudnn.found", "cuda.compile", "driver.context"),
    unless=(host_facts.no_gpu,),
    limit_s=420.0,
)
def mnist(context: Context) -> Outcome:
    found = find_homes(context, "cudnn.h", "libcudnn", "cudnn")
    if not found:
        return skipped("no cudnn.h with its library was found to build with", INSTALL)
    vendor = run_vendor_sample(context, found[0])
    if isinstance(vendor, Outcome):
        return vendor
    outcome = run_digits(context, found[0], 0)
    if outcome.status == "pass" and vendor.reason:
        detail = f"{outcome.detail}; {vendor.reason}"
        return msgspec.structs.replace(outcome, detail=detail, evidence={**outcome.evidence, **vendor.evidence})
    return outcome
