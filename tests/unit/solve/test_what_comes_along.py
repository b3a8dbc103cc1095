"""Bare requirements with the real facts: what only some versions bring in never costs the newest version."""

from __future__ import annotations

import pytest

from gpustack.detect.describe import describe
from gpustack.errors import NoSolutionError, UnsupportedError
from gpustack.matrix.index import load_matrix
from gpustack.model.request import Request
from gpustack.solve.requirements import parse_requirement
from gpustack.solve.resolve import resolve
from gpustack.solve.rows import JETSON
from gpustack.versions import version

MATRIX = load_matrix()


@pytest.mark.parametrize(
    ("asked", "gpus", "along"),
    [
        ("ffmpeg", ("H200",), {"driver", "fabric-manager", "nv-codec-headers"}),
        ("ffmpeg", ("L4",), {"driver", "nv-codec-headers"}),
        ("ffmpeg", (), {"nv-codec-headers"}),
        ("container-toolkit", ("L4",), {"driver"}),
        ("tensorrt", ("L4",), {"driver", "cuda"}),
    ],
)
def test_the_newest_is_taken_with_all_that_it_brings_and_no_more(
    asked: str, gpus: tuple[str, ...], along: set[str]
) -> None:
    host = describe(MATRIX, os="ubuntu24.04", arch=None, gpus=gpus)
    answer = resolve(MATRIX, host, Request(requirements=(parse_requirement(asked),)))
    picks = {pick.component: pick.version for pick in answer.picks}
    assert picks.keys() == {asked, *along}
    if asked == "ffmpeg":
        assert version(picks[asked]) >= version("9.0.2")


@pytest.mark.parametrize(("system", "cuda"), [("l4t36", "12.6.3"), ("l4t35", "12.2.2")])
def test_a_jetson_gets_archives_for_jetsons(system: str, cuda: str) -> None:
    host = describe(MATRIX, os=system, arch=None)
    answer = resolve(MATRIX, host, Request(requirements=(parse_requirement("cuda"), parse_requirement("cudnn"))))
    picks = {pick.component: pick for pick in answer.picks}
    assert picks["cuda"].version == cuda
    archives = MATRIX.archives("cudnn-archives")
    built_for = {row.cuda for row in archives if row.version == picks["cudnn"].version and row.platform == JETSON}
    assert cuda.partition(".")[0] in built_for


def test_a_jetson_without_a_folder_gets_no_cuda_of_another_release() -> None:
    host = describe(MATRIX, os="l4t32", arch=None)
    with pytest.raises(UnsupportedError):
        resolve(MATRIX, host, Request(requirements=(parse_requirement("cuda"),)))


def test_the_driver_is_needed_by_what_was_asked_for_rather_than_by_its_equal() -> None:
    host = describe(MATRIX, os="ubuntu24.04", arch=None, gpus=("H200",))
    answer = resolve(MATRIX, host, Request(requirements=(parse_requirement("cuda"),)))
    driver = next(pick for pick in answer.picks if pick.component == "driver")
    assert driver.reasons[0].text.startswith("needed: CUDA")


def test_the_newest_driver_of_a_baseboard_is_one_with_a_fabric_manager() -> None:
    host = describe(MATRIX, os="ubuntu24.04", arch=None, gpus=("H200",))
    request = Request(requirements=(parse_requirement("driver"),), policy="newest")
    answer = resolve(MATRIX, host, request)
    picks = {pick.component: pick for pick in answer.picks}
    assert picks["driver"].version == picks["fabric-manager"].version
    assert not any("lists no Fabric Manager" in text for text in answer.warnings)
    alone = describe(MATRIX, os="ubuntu24.04", arch=None, gpus=("L4",))
    newest = {pick.component: pick for pick in resolve(MATRIX, alone, request).picks}
    assert version(newest["driver"].version) > version(picks["driver"].version)


def test_the_gpus_of_a_mixed_host_are_told_apart() -> None:
    host = describe(MATRIX, os="ubuntu24.04", arch=None, gpus=("GTX 1080", "RTX 5090"))
    with pytest.raises(NoSolutionError) as caught:
        resolve(MATRIX, host, Request(requirements=(parse_requirement("driver"),)))
    assert "on separate hosts: GeForce GTX 1080 with driver 580." in str(caught.value.hint)


def test_an_installed_driver_is_kept_without_a_word_on_newer_branches() -> None:
    host = describe(MATRIX, os="ubuntu24.04", arch=None, gpus=("L4",), driver="566.36")
    answer = resolve(MATRIX, host, Request(requirements=(parse_requirement("ffmpeg==7.1.1"),)))
    [driver] = [pick for pick in answer.picks if pick.component == "driver"]
    assert driver.state == "keep"
    assert not any("not chosen" in reason.text for reason in driver.reasons)
