"""Which kernel module flavours can drive all GPUs of a host with a given driver version."""

from __future__ import annotations

from gpustack.solve.question import Question
from gpustack.versions import is_within

FIRST_OPEN = "515.43.04"
"""The first driver with open kernel modules (matrix: driver, open_modules)."""

DEFAULT_OPEN_SINCE = "560"
"""From this branch on the vendor installs open modules by default where the GPU allows both."""


def flavours(question: Question, driver: str) -> tuple[str, ...]:
    """The flavours, preferred first, that every GPU accepts, the version has, the packages offer and the user allows."""
    allowed = ["open", "proprietary"] if is_within(driver, f">={DEFAULT_OPEN_SINCE}") else ["proprietary", "open"]
    for gpu in question.host.gpus:
        if gpu.open_module == "impossible" and "open" in allowed:
            allowed.remove("open")
        if gpu.open_module == "required" and "proprietary" in allowed:
            allowed.remove("proprietary")
    if not is_within(driver, f">={FIRST_OPEN}") and "open" in allowed:
        allowed.remove("open")
    if question.request.kernel_module != "auto":
        allowed = [flavour for flavour in allowed if flavour == question.request.kernel_module]
    offer = question.offers.offer("driver", driver)
    if offer is not None and offer.flavours:
        allowed = [flavour for flavour in allowed if flavour in offer.flavours]
    return tuple(allowed)
