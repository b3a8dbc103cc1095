"""cuda-compat as a component: which driver branch, which CUDA, which class of GPU; and its plan."""

from __future__ import annotations

import pytest

from gpustack.detect.describe import describe
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.request import Request
from gpustack.model.resolution import Verdict
from gpustack.plan.build import build
from gpustack.solve.check import check
from gpustack.solve.requirements import merge, parse_requirement
from gpustack.solve.resolve import resolve
from gpustack.versions import version


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def asked(question: str) -> Request:
    return Request(requirements=merge(tuple(parse_requirement(text) for text in question.split())))


def ask(matrix: Matrix, question: str, gpu: str, os: str = "ubuntu22.04") -> Verdict:
    return check(matrix, describe(matrix, os=os, arch=None, gpus=(gpu,)), asked(question))


@pytest.mark.parametrize(
    ("question", "gpu", "verdict"),
    [
        # the vendor's table: compatible, the same release, not compatible
        ("cuda-compat==12.4 driver==535.183.06", "T4", "compatible"),
        ("cuda-compat==12.4 driver==580.95.05", "T4", "incompatible"),
        ("cuda-compat==13.1 driver==580.95.05", "A100", "compatible"),
        ("cuda-compat==12.9 driver==580.95.05", "H100", "incompatible"),
        ("cuda-compat==13.0 driver==580.95.05", "H100", "compatible"),
        # branches that the release notes of NGC name, and those that they exclude
        ("cuda-compat==12.4 driver==470.57.02", "T4", "compatible"),
        ("cuda-compat==12.4 driver==515.65.01", "T4", "incompatible"),
        ("cuda-compat==11.4 driver==418.40.04", "V100", "compatible"),
        # classes of GPU
        ("cuda-compat==12.4 driver==535.183.06", "RTX 4090", "incompatible"),
        ("cuda-compat==12.4 driver==535.183.06", "RTX A6000", "unknown"),
        ("cuda-compat==12.4", "B200", "incompatible"),
        ("cuda-compat==13.0 driver==535.183.06", "V100", "incompatible"),
        ("cuda-compat==12.9 driver==535.183.06", "V100", "compatible"),
        # what no fact says
        ("cuda-compat==12.0 driver==470.57.02", "T4", "unknown"),
        # with the toolkit: the driver that CUDA alone requires is lifted, for this CUDA and older ones
        ("cuda-compat==12.4 cuda==12.4.1 driver==470.57.02", "T4", "compatible"),
        ("cuda==12.4.1 driver==470.57.02", "T4", "incompatible"),
        ("cuda-compat==12.8 cuda==12.6.1 driver==470.57.02", "T4", "compatible"),
        # what two pages of NVIDIA answer differently
        ("cuda-compat==13.0 cuda==12.9.1 driver==470.57.02", "T4", "unknown"),
        ("cuda-compat==12.4 cuda==12.8.1 driver==470.57.02", "T4", "incompatible"),
        ("cuda-compat==12.4 cuda==12.4.1 driver==515.65.01", "T4", "incompatible"),
    ],
)  # fmt: skip
def test_forward_compatibility(question: str, gpu: str, verdict: str, matrix: Matrix) -> None:
    assert ask(matrix, question, gpu).verdict == verdict


def test_a_branch_that_the_vendors_table_no_longer_lists_is_a_warning(matrix: Matrix) -> None:
    assert any(
        "past their end of life" in text for text in ask(matrix, "cuda-compat==12.4 driver==470.57.02", "T4").warnings
    )
    assert ask(matrix, "cuda-compat==12.4 driver==535.183.06", "T4").warnings == ()


@pytest.mark.parametrize(("os", "gpu"), [("windows11", "T4"), ("l4t36", "Jetson AGX Orin")])
def test_elsewhere_nothing_is_promised(os: str, gpu: str, matrix: Matrix) -> None:
    assert ask(matrix, "cuda-compat==12.4", gpu, os).verdict == "unknown"


def test_every_pair_of_the_vendors_table_is_judged_as_it_says(matrix: Matrix) -> None:
    drivers = [row.version for row in matrix.releases("driver") if "linux" in row.os and row.status == "released"]
    wrong = []
    for row in matrix.rows("cuda", "forward_compat", dict):
        driver = next((one for one in drivers if one.split(".")[0] == row["branch"]), None)
        assert driver is not None
        verdict = ask(matrix, f"cuda-compat=={row['cuda']} driver=={driver}", "A100").verdict
        expected = "incompatible" if row["result"] == "incompatible" else "compatible"
        if verdict != expected:
            wrong.append((row["package"], driver, verdict))
    assert not wrong


def test_a_plan_installs_the_package_and_tells_the_loader(matrix: Matrix) -> None:
    host = describe(matrix, os="ubuntu22.04", arch=None, gpus=("T4",), driver="535.183.06")
    request = asked("cuda-compat==13.0.* cuda==12.9.1")
    resolution = resolve(matrix, host, request)
    picks = {pick.component: pick.version for pick in resolution.picks}
    assert picks["driver"] == "535.183.06"  # kept: that is what the package is for
    assert version(picks["cuda-compat"]).numbers[:2] == (13, 0)
    plan = build(host, request, resolution, matrix)
    commands = " ".join(word for step in plan.steps for argv in step.commands for word in argv)
    assert "cuda-compat-13-0" in commands
    files = {file.path: file.content for step in plan.steps for file in step.files}
    assert "LD_LIBRARY_PATH=/usr/local/cuda-13.0/compat" in str(files["/etc/profile.d/gpustack-cuda-compat.sh"])
