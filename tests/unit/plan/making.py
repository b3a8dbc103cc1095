"""Hosts, picks and plans for the tests of the planner, on the built-in facts."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from gpustack.detect.describe import describe
from gpustack.errors import GpustackError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host
from gpustack.model.plan import Plan
from gpustack.model.request import Method, Request
from gpustack.model.resolution import Pick, Reason, Resolution
from gpustack.plan.build import build
from gpustack.solve.offers import OfferBook
from gpustack.solve.requirements import parse_requirement
from gpustack.solve.resolve import resolve


@cache
def matrix() -> Matrix:
    return load_matrix()


def host(system: str = "ubuntu24.04", *, arch: str = "x86_64", gpus: tuple[str, ...] = ("L4",), **fields: Any) -> Host:
    return replace(describe(matrix(), os=system, arch=arch, gpus=gpus), **fields)


def pick(component: str, version: str, method: Method = "network", **fields: Any) -> Pick:
    reasons = (Reason(role="asked", text=f"asked for {component}"),)
    return Pick(component=component, version=version, method=method, reasons=reasons, **fields)


DRIVER = pick("driver", "580.95.05", flavour="open")
CUDA = pick("cuda", "13.0.2")
CUDNN = pick("cudnn", "9.14.0.64")
TENSORRT = pick("tensorrt", "10.13.3.9")


def plan(machine: Host, *picks: Pick) -> Plan:
    return build(machine, Request(requirements=()), stack(matrix(), machine, *picks), matrix())


def stack(facts: Matrix, machine: Host, *picks: Pick) -> Resolution:
    """The picks with the offers that the solver has for them: the stack of a user who got exactly these."""
    offers = OfferBook(facts, machine, Request(requirements=()))
    chosen = {one.component: one.version for one in picks}
    there = machine.installed.get("cuda")
    cuda = chosen.get("cuda") or (there.version if there else None)
    return Resolution(
        picks=tuple(
            replace(one, offer=offers.for_stack(one.component, one.version, one.method, cuda=cuda, flavour=one.flavour))
            for one in picks
        )
    )


def refusal(machine: Host, *texts: str, method: Method) -> GpustackError:
    """Why the solver has no stack of these requirements by a method."""
    request = Request(requirements=tuple(parse_requirement(text) for text in texts), methods={"": method})
    with pytest.raises(GpustackError) as caught:
        resolve(matrix(), machine, request)
    return caught.value


def commands(made: Plan) -> list[tuple[str, ...]]:
    return [argv for step in made.steps for argv in step.commands]


def words(made: Plan) -> str:
    return "\n".join(" ".join(argv) for argv in commands(made))


def contents(made: Plan) -> dict[str, str]:
    return {file.path: file.content for step in made.steps for file in step.files}
