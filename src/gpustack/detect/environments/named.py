"""An environment of which a text has only the names and releases: what the facts have of these."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import msgspec

from gpustack.detect.environments.parse import Build, Found
from gpustack.detect.problems.consequences import AGE
from gpustack.detect.problems.phrases import Phrase
from gpustack.detect.scene import Scene
from gpustack.model.host import Host, Problem
from gpustack.model.request import Requirement
from gpustack.solve.frameworks.catalog import Catalog, platform_of
from gpustack.solve.frameworks.check import framework_findings
from gpustack.solve.question import Question

_REPORTS = {
    "environment-architecture": ("this PyTorch has no code for ", "CUDA error 209: "),
    "environment-cpu-build": ("this environment has a PyTorch without CUDA", "this PyTorch ("),
    "environment-driver": ("PyTorch is built for a newer CUDA than the driver runs",),
}
"""What is said of lines of programs where their build is not known, by what is said where it is."""

_MAKERS = {"torch ": "PyTorch", "TensorFlow ": "TensorFlow", "JAX ": "JAX"}
"""How messages about a build begin, and how the symptoms of its absence name it."""

_OUTSIDE = "er than this PyTorch "


def usual(host: Host) -> Host:
    """The host of a text, where it does not tell the kind of machine one of the usual kind."""
    system = msgspec.structs.replace(host.os, family=host.os.family or "apt")
    arch, environment = host.arch or "x86_64", host.environment or "bare-metal"
    return msgspec.structs.replace(host, os=system, arch=arch, environment=environment)


def with_known_cuda(build: Build, question: Question) -> Build:
    """The build with the CUDA of every wheel of its release for this platform, where there was nothing to read."""
    if build.cuda is not None or "+" in build.version:
        return build
    here = platform_of(question.host)
    wheels = [
        one
        for one in Catalog(question.matrix).builds(build.name)
        if one.version == build.version and one.platform == here and one.code in {"cpu", "cuda"}
    ]
    kinds = {one.cuda if one.code == "cuda" else "" for one in wheels}
    if len(kinds) != 1 or any(one.code == "cuda" and not one.cuda for one in wheels):
        return build
    return msgspec.structs.replace(build, cuda=kinds.pop(), why=f"as every wheel of this release for {here}")


def disagreements(found: Found, question: Question, told: list[Problem]) -> Iterator[Problem]:
    """Releases of which one requires another release of the other: each pair for itself, without driver and GPU.

    ``told``: what their own METADATA, or what the facts have of it, says already.
    """
    pins = [one.message for one in told if one.id == "environment-pins"]
    catalog = Catalog(question.matrix, platform_of(question.host))
    named = [Requirement(component=name, versions=f"=={version}") for name, version in found.packages.items()]
    known = [one for one in named if catalog.builds(one.component)]
    bare = msgspec.structs.replace(question.host, gpus=(), installed={})
    alone = Question(question.matrix, bare, question.request, mode="check")
    for pair in combinations(known, 2):
        if any(all(one.component in message for one in pair) for message in pins):
            continue
        findings = framework_findings(alone, pair)
        for conflict in findings.conflicts:
            if {one.partition("==")[0] for one in conflict.between} != {one.component for one in pair}:
                continue
            yield Problem(
                id="environment-pins",
                message=f"{' and '.join(conflict.between)} in {found.path} do not fit: {conflict.reason}",
                fix=f"install releases that fit: {'; '.join(findings.hints) or '`gpustack check` of both names them'}",
                severity="warn",
                reboot=False,
                sources=conflict.sources,
            )


def without_reports(scene: Scene, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """The problems of a text without what programs say because a build, another problem, does not run here."""
    of_builds = [one for one in problems if one.id in _REPORTS]
    if not of_builds:
        return problems
    makers = {name for one in of_builds for start, name in _MAKERS.items() if one.message.startswith(start)}
    rows = scene.matrix.rows("log-lines", "phrases", Phrase) if makers else ()
    symptoms = (row.says.partition("{")[0] for row in rows if row.symptom and any(one in row.says for one in makers))
    starts = (*(start for one in of_builds for start in _REPORTS[one.id]), *symptoms)
    is_of_code = any(one.id == "environment-architecture" for one in of_builds)
    return tuple(
        one
        for one in problems
        if not (one.message.startswith(starts) or one.id in AGE or (is_of_code and _OUTSIDE in one.message))
    )
