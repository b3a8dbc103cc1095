"""Two frameworks in one environment: what both require of a third wheel, files in one place, and PyTorch's own code."""

from __future__ import annotations

import re

from gpustack.model.frameworks import FRAMEWORKS, Build, pins
from gpustack.solve.frameworks.catalog import Catalog, exact
from gpustack.solve.words import in_words
from gpustack.versions import is_within, version_key

_SAME_FILES = (
    {"onnxruntime", "onnxruntime-gpu"},
    {"cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x"},
    {"sgl-kernel", "sglang-kernel"},
)
"""Distributions that install one package: the last one replaces the other."""

_ONE_FOLDER = re.compile(r"(nvidia-(?:cudnn|nccl|nvshmem|cusparselt))-cu(\d+)")
"""Libraries that have their files in the same folder for every CUDA."""


def breach(one: Build, two: Build) -> str:
    """Why two frameworks do not run in one environment, although neither requires the other; "" if nothing is known."""
    if any({one.component, two.component} <= group for group in _SAME_FILES) and one.component != two.component:
        return f"{one.named} and {two.named} install the same files: the last one replaces the other"
    mine, its = _needs(one), _needs(two)
    for name in mine.keys() & its.keys() - {one.component, two.component}:
        if _exclude(name, mine[name], its[name]):
            return f"{one.named} requires {name}{mine[name]}, and {two.named} {name}{its[name]}"
    folders = {found[1]: (name, found[2]) for name in mine if (found := _ONE_FOLDER.fullmatch(name)) is not None}
    for name in its:
        found = _ONE_FOLDER.fullmatch(name)
        own, major = folders.get(found[1], ("", "")) if found is not None else ("", "")
        if found is not None and own and major != found[2]:
            return (
                f"{one.named} requires {own}, and {two.named} {name}: both have their files in one folder,"
                " and the last one replaces the other"
            )
    return ""


def _needs(build: Build) -> dict[str, str]:
    """What a build has next to it: JAX has NVIDIA's libraries by an extra, TensorFlow may load those of the system."""
    return pins(build.requires) | (pins(build.optional) if build.code == "jit" else {})


def _exclude(name: str, mine: str, its: str) -> bool:
    """Whether no release of a third wheel is in both ranges; a newer library of the same major release serves both."""
    for one, two in ((mine, its), (its, mine)):
        number = exact(one)
        if not number or not two or is_within(number, two):
            continue
        other = exact(two)
        if name in FRAMEWORKS or (other and other.split(".")[0] != number.split(".")[0]):
            return True
        if not other and not is_within(number, _without_end(two)):
            return True
    return False


def _without_end(range_text: str) -> str:
    return ",".join(clause for clause in range_text.split(",") if not clause.startswith("<"))


def both_in_words(one: Build, two: Build) -> str:
    """That pip refuses two frameworks in one request, since each is pinned to another release of a library."""
    mine, its = _needs(one), _needs(two)
    for name in sorted(mine.keys() & its.keys()):
        if exact(mine[name]) and exact(its[name]) and mine[name] != its[name] and name not in FRAMEWORKS:
            newer = max(exact(mine[name]), exact(its[name]), key=version_key)
            pinned = f"{one.named} requires {name}{mine[name]}, and {two.named} {name}{its[name]}"
            return f"{pinned}: pip refuses the two in one request; {newer} serves both if it is installed afterwards"
    return ""


def doubt(catalog: Catalog, one: Build, two: Build) -> str:
    """What is unknown of a framework next to a PyTorch; "" if nothing is."""
    if two.component != "torch" or two.code != "cuda":
        return ""
    return _doubt_of_code(catalog, one, two) or _doubt_of_pins(one, two)


def _doubt_of_code(catalog: Catalog, one: Build, torch: Build) -> str:
    """Whether code that is compiled for one release of PyTorch loads with this one."""
    row = catalog.partner_torch(one)
    line = catalog.cuda_of(torch)
    is_here = row is None or (is_within(torch.version, row.torch) and (not line or is_within(line, row.cuda)))
    if row is not None and not row.refused and not is_here:
        made = f"the wheels of {one.named} are for torch {in_words(row.torch)} of CUDA {in_words(row.cuda)}"
        return f"{made}; whether it can be compiled for {torch.named} is unknown"
    if one.code == "cuda" and torch.local and exact(pins(one.requires).get("torch", "")) and not catalog.cuda_of(one):
        return f"{one.named} with {torch.named}: the CUDA that it is built for is unknown"
    if one.component == "flash-attn" and row is None:
        return (
            f"for which PyTorch there are wheels of {one.named} is unknown; whether it loads with {torch.named} is too"
        )
    if one.component not in {"sgl-kernel", "sglang-kernel"}:
        return ""
    tried = _tried_with(catalog, one)
    plain = next((row for row in catalog.builds("torch") if (row.version, row.local) == (torch.version, "")), torch)
    if torch.version in tried and catalog.cuda_of(plain).split(".")[0] == line.split(".")[0]:
        return ""
    known = f": releases of sglang require it with torch {', '.join(tried)}" if tried else ""
    made = f"{one.named} has code for one release of PyTorch and does not name it{known}"
    return f"{made}; whether it loads with {torch.named} is unknown"


def _doubt_of_pins(one: Build, torch: Build) -> str:
    """Whether the facts lack a pin of one of the two."""
    if one.component == "tensorrt-llm" and "torch" not in _needs(one):
        return f"{one.named} with {torch.named}: which release of PyTorch it requires is unknown"
    libraries = [name for name in _needs(one) if name.startswith("nvidia-")]
    if one.component.startswith("jax-") and "pjrt" not in one.component and not libraries:
        return f"{one.named} with {torch.named}: which releases of NVIDIA's libraries it requires is unknown"
    if torch.local and libraries and one.code in {"cuda", "jit"}:
        return f"{one.named} with {torch.named}: which releases of NVIDIA's libraries this build requires is unknown"
    return ""


def _tried_with(catalog: Catalog, kernel: Build) -> list[str]:
    """The releases of PyTorch that releases of SGLang are pinned to which are pinned to this kernel."""
    found = (
        exact(wanted.get("torch", ""))
        for wanted in (pins(build.requires) for build in catalog.everywhere("sglang"))
        if exact(wanted.get(kernel.component, "")) == kernel.version
    )
    return sorted(set(filter(None, found)), key=version_key)
