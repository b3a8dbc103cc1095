"""``NVIDIA_REQUIRE_*``: what an image demands of its host before the container toolkit starts it.

Words separated by spaces are alternatives; terms of a word, separated by commas, all have to hold; several variables
all have to hold. A term compares ``cuda`` (the CUDA of the driver), ``driver``, ``arch`` (compute capability) or
``brand`` with a value.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from gpustack.model.host import Gpu
from gpustack.versions import version_key

Truth = Literal["yes", "no", "unknown"]
_TERM = re.compile(r"(\w+)(>=|<=|!=|=|<|>)([\w.]+)")
_BRANDS = {
    "datacenter": {"tesla", "nvidia"},
    "consumer": {"geforce", "geforcertx", "titan", "titanrtx"},
    "professional": {"quadro", "quadrortx", "nvidiartx", "nvs", "nvidia"},
}
"""Which brands NVML may report for a GPU of each class."""


class Told(Struct, frozen=True, kw_only=True):
    """What is known of the host: ``cuda`` and ``driver`` "" if unknown."""

    cuda: str = ""
    driver: str = ""
    gpus: tuple[Gpu, ...] = ()


def requirements_of(environment: dict[str, str]) -> dict[str, str]:
    """The variables that demand something."""
    return {name: text for name, text in environment.items() if name.startswith("NVIDIA_REQUIRE_") and text.strip()}


def is_disabled(environment: dict[str, str]) -> bool:
    """Whether the image lifts its own demands."""
    return environment.get("NVIDIA_DISABLE_REQUIRE", "").lower() in {"1", "true", "yes", "t"}


def malformed(text: str) -> str:
    """The first term that is none, "" if all are."""
    terms = (term for word in text.split() for term in word.split(","))
    return next((term for term in terms if not _TERM.fullmatch(term)), "")


def holds(text: str, told: Told) -> Truth:
    """Whether a host meets the demand of one variable."""
    answers = {_all(tuple(_term(term, told) for term in word.split(","))) for word in text.split()}
    return "yes" if "yes" in answers else "unknown" if "unknown" in answers else "no"


def _all(answers: tuple[Truth, ...]) -> Truth:
    return "no" if "no" in answers else "unknown" if "unknown" in answers else "yes"


def _term(term: str, told: Told) -> Truth:
    match = _TERM.fullmatch(term)
    if match is None:
        return "unknown"
    name, operator, value = match[1], match[2], match[3]
    if name == "brand":
        return _all(tuple(_brand(gpu, operator, value) for gpu in told.gpus)) if told.gpus else "unknown"
    if name == "arch":
        found = [gpu.compute_capability or "" for gpu in told.gpus]
    elif name in {"cuda", "driver"}:
        found = [told.cuda if name == "cuda" else told.driver]
    else:
        return "unknown"
    return _all(tuple(_compared(one, operator, value) for one in found)) if found else "unknown"


def _brand(gpu: Gpu, operator: str, value: str) -> Truth:
    brands = _BRANDS.get(gpu.kind or "")
    if brands is None:
        return "unknown"
    return "yes" if (value in brands) == (operator == "=") else "no"


def _compared(found: str, operator: str, value: str) -> Truth:
    if not found or not value[:1].isdigit():
        return "unknown"
    mine, other = version_key(found), version_key(value)
    held = {
        ">=": mine >= other,
        "<=": mine <= other,
        ">": mine > other,
        "<": mine < other,
        "=": mine == other,
        "!=": mine != other,
    }[operator]
    return "yes" if held else "no"
