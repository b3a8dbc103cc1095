"""An environment of which a text has only the names and releases: what the facts have of these."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import msgspec

from gpustack.detect.environments.parse import Build, Found
from gpustack.model.host import Host, Problem
from gpustack.model.request import Requirement
from gpustack.solve.frameworks.catalog import Catalog, platform_of
from gpustack.solve.frameworks.check import framework_findings
from gpustack.solve.question import Question


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
