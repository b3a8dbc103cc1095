"""Images of NGC by their tags: how they run on a driver and a GPU."""

from __future__ import annotations

import pytest

from gpustack.detect.describe import describe
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.request import Beside, Request
from gpustack.model.resolution import ImageAnswer, Verdict
from gpustack.solve.check import check

PYTORCH = "nvcr.io/nvidia/pytorch"


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def ask(matrix: Matrix, image: str, gpu: str, driver: str | None, os: str = "ubuntu22.04") -> Verdict:
    host = describe(matrix, os=os, arch=None, gpus=(gpu,), driver=driver)
    return check(matrix, host, Request(requirements=()), beside=Beside(image=image))


def answer(verdict: Verdict) -> ImageAnswer:
    assert isinstance(verdict.image, ImageAnswer)
    return verdict.image


@pytest.mark.parametrize(
    ("image", "gpu", "driver", "verdict", "runs"),
    [
        (f"{PYTORCH}:25.06-py3", "H100", "580.95.05", "compatible", "runs"),
        (f"{PYTORCH}:25.06-py3", "RTX 4090", "535.183.06", "compatible", "runs by minor-version compatibility"),
        (f"{PYTORCH}:25.08-py3", "T4", "535.183.06", "compatible", "needs forward compatibility"),
        (f"{PYTORCH}:25.08-py3", "RTX 4090", "535.183.06", "incompatible", "does not run"),
        (f"{PYTORCH}:25.08-py3", "RTX A6000", "535.183.06", "unknown", "unknown"),
        (f"{PYTORCH}:25.08-py3", "T4", "515.65.01", "incompatible", "does not run"),
        ("nvcr.io/nvidia/tritonserver:25.08-py3", "A100", "470.57.02", "compatible", "needs forward compatibility"),
        ("nvidia/cuda:13.0.0-cudnn-devel-ubuntu22.04", "A100", "550.54.15", "incompatible", "does not run"),
        ("nvcr.io/nvidia/cuda:12.9.2-cudnn-devel-ubuntu24.04", "A100", "580.95.05", "compatible", "runs"),
        ("nvidia/cuda:12.4.1-devel-ubi9", "A100", "550.54.15", "compatible", "runs"),
        (
            "nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04",
            "A100",
            "470.57.02",
            "compatible",
            "runs by minor-version compatibility",
        ),
        ("nvidia/cuda:12.6.3-base-amzn2023", "T4", "460.106.00", "incompatible", "does not run"),
        ("nvidia/cuda:13.2.1-cudnn-devel-ubuntu24.04", "V100", "580.95.05", "incompatible", "does not run"),
        # built for later GPUs, or before them
        (f"{PYTORCH}:25.01-py3", "V100", "570.124.06", "incompatible", "does not run"),
        (f"{PYTORCH}:24.11-py3", "B200", "580.95.05", "incompatible", "does not run"),
        # what no fact knows
        (f"{PYTORCH}:24.13-py3", "A100", "580.95.05", "unknown", "unknown"),
        ("pytorch/pytorch:2.5.1-cuda12.2-cudnn9-runtime", "A100", "580.95.05", "unknown", "unknown"),
        (f"{PYTORCH}@sha256:0123", "A100", "580.95.05", "unknown", "unknown"),
        (f"{PYTORCH}@sha256:{'0' * 64}", "A100", "580.95.05", "unknown", "unknown"),
    ],
)
def test_how_an_image_runs(image: str, gpu: str, driver: str, verdict: str, runs: str, matrix: Matrix) -> None:
    found = ask(matrix, image, gpu, driver)
    assert (found.verdict, answer(found).runs) == (verdict, runs)


def test_the_answer_names_cuda_the_smallest_driver_and_the_nearest_tag_that_runs(matrix: Matrix) -> None:
    found = answer(ask(matrix, f"{PYTORCH}:25.08-py3", "RTX 4090", "535.183.06"))
    assert (found.cuda, found.smallest_driver) == ("13.0.0", "580.65.06")
    assert found.nearest == "25.06-py3"
    again = ask(matrix, f"{PYTORCH}:{found.nearest}", "RTX 4090", "535.183.06")
    assert again.verdict == "compatible"
    assert answer(again).nearest == ""


def test_without_a_driver_the_smallest_is_a_warning(matrix: Matrix) -> None:
    found = ask(matrix, f"{PYTORCH}:25.08-py3", "A100", None)
    assert found.verdict == "compatible"
    assert any("requires driver 580.65.06 or newer" in text for text in found.warnings)


def test_an_unlisted_tag_is_answered_with_those_around_it(matrix: Matrix) -> None:
    (unknown,) = ask(matrix, f"{PYTORCH}:24.13-py3", "A100", "580.95.05").unknown
    assert "the nearest known are 24.11-py3 and 25.01-py3" in unknown.reason


def test_windows_runs_them_in_wsl_only(matrix: Matrix) -> None:
    (unknown,) = ask(matrix, f"{PYTORCH}:25.06-py3", "RTX 4090", "580.88", os="windows11").unknown
    assert "wsl-ubuntu24.04" in unknown.reason


def test_every_known_tag_with_a_cuda_is_judged(matrix: Matrix) -> None:
    months = {row["month"]: row for row in matrix.rows("ngc", "months", dict)}
    wrong = []
    for row in matrix.rows("ngc", "image_rows", dict):
        name = {"triton": "tritonserver"}.get(row["image"], row["image"])
        found = ask(matrix, f"nvcr.io/nvidia/{name}:{row['month']}-py3", "A100", "620.70.06")
        has_cuda = row.get("image_cuda") or row.get("cuda") or months.get(row["month"], {}).get("cuda")
        expected = "compatible" if has_cuda else "unknown"
        if found.verdict != expected:
            wrong.append((row["month"], row["image"], found.verdict, [one.reason for one in found.unknown]))
    assert not wrong
