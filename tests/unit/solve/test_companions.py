"""IMEX, DCGM, GDRCopy and GPUDirect Storage as components."""

from __future__ import annotations

import msgspec
import pytest

from gpustack.detect.describe import describe
from gpustack.detect.properties import Properties
from gpustack.errors import NoSolutionError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.request import Request
from gpustack.plan.build import build
from gpustack.solve.check import check
from gpustack.solve.requirements import merge, parse_requirement
from gpustack.solve.resolve import resolve


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def asked(question: str) -> Request:
    return Request(requirements=merge(tuple(parse_requirement(text) for text in question.split())))


@pytest.mark.parametrize(
    ("question", "os", "arch", "gpu", "verdict"),
    [
        ("imex==580.95.05 driver==580.95.05", "ubuntu24.04", "aarch64", "GB200", "compatible"),
        ("imex==580.95.05 driver==580.105.08", "ubuntu24.04", "aarch64", "GB200", "incompatible"),
        ("imex==550.127.08 driver==550.127.08", "ubuntu22.04", "aarch64", "GH200 480GB", "compatible"),
        ("imex==535.183.06", "ubuntu24.04", "aarch64", "GB200", "incompatible"),
        ("imex==580.95.05 driver==580.95.05", "ubuntu24.04", "x86_64", "RTX 3060", "unknown"),
        ("imex==550.127.08", "ubuntu22.04", "aarch64", "GB200", "incompatible"),
        ("fabric-manager==470.256.02", "ubuntu22.04", "x86_64", "H100", "incompatible"),
        ("fabric-manager==535.183.01", "ubuntu22.04", "x86_64", "H100", "compatible"),
        ("fabric-manager==570.133.20", "centos7", "x86_64", "H100", "unknown"),
        ("fabric-manager==550.144.03", "ubuntu22.04", "x86_64", "NVIDIA A100-40C", "unknown"),
        ("triton==26.10", "centos7", "x86_64", "B200", "unknown"),
        ("cuda-compat==13.0", "debian10", "x86_64", "T4", "unknown"),
        ("gds==12.8.1", "debian10", "x86_64", "T4", "unknown"),
        ("cuda==12.4.1", "ubuntu22.04", "x86_64", "GRID T4-2B", "unknown"),
        ("cuda==12.4.1", "ubuntu22.04", "x86_64", "GRID T4-16Q", "compatible"),
        ("dcgm==4.5.2 driver==580.95.05", "ubuntu24.04", "x86_64", "H100", "compatible"),
        ("dcgm==4.5.2 driver==440.33.01", "ubuntu18.04", "x86_64", "T4", "incompatible"),
        ("dcgm==4.5.2", "ubuntu24.04", "x86_64", "GTX 680", "incompatible"),
        ("dcgm==9.9.9", "ubuntu24.04", "x86_64", "H100", "unknown"),
        ("dcgm==4.5.2", "ubuntu22.04", "x86_64", "GRID T4-16Q", "unknown"),
        ("dcgm==4.5.2", "l4t36", "aarch64", "Jetson AGX Orin", "unknown"),
        ("gds==13.0.2 driver==580.95.05 cuda==13.0.2", "ubuntu24.04", "x86_64", "H100", "compatible"),
        ("gds==12.8.1 driver==510.47.03", "ubuntu22.04", "x86_64", "T4", "incompatible"),
        ("gds==12.8.1 driver==570.133.20", "ubuntu22.04", "x86_64", "V100", "incompatible"),
        ("gds==11.3.1", "ubuntu20.04", "x86_64", "T4", "incompatible"),
        ("gds==13.0.2", "ubuntu24.04", "x86_64", "RTX 4090", "unknown"),
        ("gds==13.0.2", "wsl-ubuntu24.04", "x86_64", "H100", "unknown"),
        ("gdrcopy==2.5.1 driver==580.95.05 cuda==13.0.2", "ubuntu24.04", "x86_64", "B200", "compatible"),
        ("gdrcopy==2.5 driver==580.95.05", "ubuntu24.04", "x86_64", "B200", "incompatible"),
        ("gdrcopy==2.5 driver==580.95.05 cuda==13.0.2", "ubuntu24.04", "x86_64", "H100", "incompatible"),
        ("gdrcopy==2.6", "ubuntu24.04", "x86_64", "RTX 4090", "unknown"),
    ],
)
def test_companions_of_the_driver(question: str, os: str, arch: str, gpu: str, verdict: str, matrix: Matrix) -> None:
    found = check(matrix, describe(matrix, os=os, arch=arch, gpus=(gpu,)), asked(question))
    assert found.verdict == verdict, found


def test_imex_is_planned_once_in_the_drivers_version(matrix: Matrix) -> None:
    host = describe(matrix, os="ubuntu24.04", arch="aarch64", gpus=("GB200",))
    request = asked("imex driver==580.*")
    resolution = resolve(matrix, host, request)
    picks = {pick.component: pick.version for pick in resolution.picks}
    assert picks["imex"] == picks["driver"]
    plan = build(host, request, resolution, matrix)
    words = [word for step in plan.steps for argv in step.commands for word in argv]
    assert [word for word in words if word.startswith("nvidia-imex=")] == [f"nvidia-imex={picks['driver']}-*"]
    assert sum("nvidia-imex.service" in argv for step in plan.steps for argv in step.commands) == 1


def test_storage_comes_with_the_open_modules_and_the_release_of_its_toolkit(matrix: Matrix) -> None:
    host = describe(matrix, os="rhel9.4", arch="x86_64", gpus=("H100",), properties=Properties(secure_boot=True))
    request = asked("gds driver==550.* cuda==12.8.*")
    resolution = resolve(matrix, host, request)
    picks = {pick.component: pick.version for pick in resolution.picks}
    assert (picks["gds"], next(pick.flavour for pick in resolution.picks if pick.component == "driver")) == (
        picks["cuda"],
        "open",
    )
    plan = build(host, request, resolution, matrix)
    packages = [word for step in plan.steps if step.component == "gds" for argv in step.commands for word in argv]
    assert f"nvidia-gds-12-8-{picks['gds']}-1" in packages
    assert any("does not work while Secure Boot is on" in warning for warning in plan.warnings)


def test_storage_refuses_the_proprietary_modules(matrix: Matrix) -> None:
    host = describe(matrix, os="ubuntu24.04", arch="x86_64", gpus=("H100",))
    request = msgspec.structs.replace(asked("gds driver"), kernel_module="proprietary")
    with pytest.raises(NoSolutionError, match="You asked for proprietary kernel modules"):
        resolve(matrix, host, request)


@pytest.mark.parametrize(("kernel", "verdict"), [("6.14.0", "compatible"), ("6.17.0", "incompatible")])
def test_gdrcopy_is_judged_by_the_kernel(kernel: str, verdict: str, matrix: Matrix) -> None:
    host = describe(matrix, os="ubuntu24.04", arch="x86_64", gpus=("H100",), properties=Properties(kernel=kernel))
    assert check(matrix, host, asked("gdrcopy==2.5.1 driver==580.95.05")).verdict == verdict
