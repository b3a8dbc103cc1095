"""Hosts, picks and plans for the tests of the planner, on the built-in facts."""

from __future__ import annotations

from functools import cache
from typing import Any

from gpustack.detect.describe import describe
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host
from gpustack.model.plan import Plan
from gpustack.model.request import Request
from gpustack.model.resolution import Pick, Reason, Resolution
from gpustack.plan.build import build


@cache
def matrix() -> Matrix:
    return load_matrix()


def host(system: str = "ubuntu24.04", *, arch: str = "x86_64", gpus: tuple[str, ...] = ("L4",), **fields: Any) -> Host:
    from msgspec.structs import replace

    return replace(describe(matrix(), os=system, arch=arch, gpus=gpus), **fields)


def pick(component: str, version: str, method: str = "network", **fields: Any) -> Pick:
    reasons = (Reason(role="asked", text=f"asked for {component}"),)
    return Pick(component=component, version=version, method=method, reasons=reasons, **fields)


DRIVER = pick("driver", "580.95.05", flavour="open")
CUDA = pick("cuda", "13.0.2")
CUDNN = pick("cudnn", "9.14.0.64")
TENSORRT = pick("tensorrt", "10.13.3.9")


def plan(machine: Host, *picks: Pick) -> Plan:
    return build(machine, Request(requirements=()), Resolution(picks=picks), matrix())


def commands(made: Plan) -> list[tuple[str, ...]]:
    return [argv for step in made.steps for argv in step.commands]


def words(made: Plan) -> str:
    return "\n".join(" ".join(argv) for argv in commands(made))


def contents(made: Plan) -> dict[str, str]:
    return {file.path: file.content for step in made.steps for file in step.files}
