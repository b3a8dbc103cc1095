"""Bare requirements with the real facts: what only some versions bring in never costs the newest version."""

from __future__ import annotations

import pytest

from gpustack.detect.describe import describe
from gpustack.matrix.index import load_matrix
from gpustack.model.request import Request
from gpustack.solve.requirements import parse_requirement
from gpustack.solve.resolve import resolve
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
