"""What the tests of the written formats share: real plans, hostile strings, programs that judge, golden files."""

from __future__ import annotations

import shutil
import sys
from functools import cache
from pathlib import Path

from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from tests.property.hostile import HOSTILE, texts

from gpustack.detect.describe import describe
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host, OperatingSystem
from gpustack.model.plan import BaseImage, Plan, StackEntry
from gpustack.model.request import Request, Stage
from gpustack.model.steps import Step
from gpustack.plan.build import build
from gpustack.plan.document import digest_of
from gpustack.solve.requirements import merge, parse_methods, parse_requirement
from gpustack.solve.resolve import resolve

__all__ = ["HOSTILE", "texts"]

GOLDEN = Path(__file__).parents[2] / "golden"
BASIC = "driver cuda cudnn"
PLANS = {
    "ubuntu24.04": BASIC,
    "debian12": BASIC,
    "rhel9": BASIC,
    "sles15.6": BASIC,
    "azurelinux3.0": "driver cuda",
    "ubuntu22.04": "cuda nv-codec-headers ffmpeg tensorrt",
}
"""Systems and the stack that is planned for each."""


@cache
def matrix() -> Matrix:
    return load_matrix()


def plan_for(
    requirements: str,
    os: str,
    *,
    gpu: str = "L4",
    arch: str = "x86_64",
    methods: tuple[str, ...] = (),
    stage: Stage | UnsetType = UNSET,
) -> Plan:
    """The plan with the digest of the facts blanked out: it changes with every row, and golden files must not."""
    host = describe(matrix(), os=os, arch=arch, gpus=(gpu,))
    request = Request(
        requirements=merge(tuple(parse_requirement(text) for text in requirements.split())),
        methods=parse_methods(methods),
        stage=stage,
    )
    plan = replace(build(host, request, resolve(matrix(), host, request), matrix()), facts="0" * 64)
    return replace(plan, digest=digest_of(plan))


@cache
def plan_on(os: str) -> Plan:
    return plan_for(PLANS[os], os)


def plan_of(*steps: Step, name: str = "Ubuntu", version: str = "13.2.2", warnings: tuple[str, ...] = ()) -> Plan:
    """A plan of these steps for no machine in particular."""
    return Plan(
        host=Host(os=OperatingSystem(id="ubuntu", version_id="24.04", family="apt", name=name)),
        host_digest="",
        request=Request(requirements=()),
        facts="",
        image=BaseImage(name="docker.io/library/ubuntu:24.04"),
        stack={"cuda": StackEntry(version=version, method="network", reason="")},
        steps=steps,
        warnings=warnings,
        digest="0" * 64,
    )


def tool(name: str) -> str:
    """The program beside this Python, or on the path."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    assert found, f"{name} is not installed"
    return found


def compare(path: Path, plan: Plan, text: str, *, update: bool) -> None:
    """Hold a rendered plan against its golden file, in which words stand for the digests of the plan and its facts."""
    for digest, word in ((plan.digest, "PLAN"), (plan.facts, "FACTS"), (plan.host_digest, "HOST")):
        text = text.replace(digest, word)
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def anywhere(script: str) -> str:
    """A script that takes any host for the one of its plan: the tests run it on this one."""
    return script.replace("\ndemand_host ", "\ndemand_host() { :; }\ndemand_host ", 1)
