"""NVIDIA's libraries as wheels next to frameworks: pins, files in one place, and which of them a framework loads."""

from __future__ import annotations

import re

from gpustack.matrix.index import Matrix
from gpustack.model.frameworks import Build
from gpustack.model.resolution import Findings, Unknown
from gpustack.solve.frameworks.catalog import Catalog
from gpustack.solve.frameworks.judge import Judge
from gpustack.solve.frameworks.library_facts import SHARED, library, with_parts
from gpustack.versions import is_within


def breach_between(catalog: Catalog, build: Build, other: Build, *, may_be_newer: bool) -> str:
    """Why a build does not run next to a library of NVIDIA; "" if nothing speaks against it.

    A library that is newer than an exact pin, with the same soname, replaces it if it ``may_be_newer``.
    """
    wanted = _pins(catalog.matrix, build).get(other.component)
    if wanted and not is_within(other.version, wanted) and not (may_be_newer and is_newer(other, wanted)):
        return f"{build.named} requires {other.component}{wanted}"
    mine, its = library(build.component), library(other.component)
    if build.code == "library":
        is_shared = mine.stem == its.stem and mine.stem in SHARED and mine.major != its.major
        return (
            f"{build.named} and {other.named} install the same files: the last one replaces the other"
            if is_shared
            else ""
        )
    line = catalog.cuda_of(build).partition(".")[0]
    if line and its.major and line != its.major and its.stem in SHARED:
        return f"{build.named} is built for CUDA {line}, and {other.component} has the libraries for CUDA {its.major}"
    return ""


def is_newer(other: Build, pin: str) -> bool:
    """Whether a library of NVIDIA is newer than the release that something is pinned to, with the same soname."""
    wanted = pin.removeprefix("==")
    is_exact = re.fullmatch(r"==\d+(?:\.\d+)*", pin) is not None and other.component.startswith("nvidia-")
    return is_exact and is_within(other.version, f">{wanted}") and other.version.split(".")[0] == wanted.split(".")[0]


def _pins(matrix: Matrix, build: Build) -> dict[str, str]:
    return with_parts(matrix, (*build.optional, *build.requires))


def library_remarks(judge: Judge, build: Build, other: Build) -> Findings:
    """What is worth knowing of a framework and a library of NVIDIA that run next to each other, or is unknown."""
    wanted = _pins(judge.catalog.matrix, build).get(other.component)
    if wanted and is_newer(other, wanted):
        text = (
            f"{build.named} requires {other.component}{wanted}: pip refuses the two in one request, and the newer"
            " library of the same major release takes its place if it is installed afterwards"
        )
        return Findings(warnings=(text,))
    line, its = judge.catalog.cuda_of(build).partition(".")[0], library(other.component)
    if build.component == "tensorrt-llm" and its.stem == "tensorrt" and not wanted:
        reason = f"{build.named} with {other.named}: which release of TensorRT it requires is unknown"
        return Findings(unknown=(Unknown(reason=reason, sources=judge.question.matrix.addresses(build.src)),))
    if wanted or build.code not in {"cuda", "jit"} or not its.major:
        return Findings()
    if line and line != its.major:
        return Findings(warnings=(f"{build.named} does not load {other.named}: it is built for CUDA {line}",))
    if build.component == "torch" and build.local:
        reason = f"{build.named} with {other.named}: which release this build requires is unknown"
        return Findings(unknown=(Unknown(reason=reason, sources=judge.question.matrix.addresses(build.src)),))
    return Findings()
