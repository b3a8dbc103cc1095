"""What a host compiler and a C library mean for a toolkit, asked as users ask it."""

from __future__ import annotations

import pytest

from gpustack.detect.describe import describe
from gpustack.matrix.index import load_matrix
from gpustack.model.request import Request
from gpustack.model.resolution import Verdict
from gpustack.solve.check import check
from gpustack.solve.requirements import merge, parse_requirement
from gpustack.solve.resolve import resolve

FACTS = load_matrix()


def ask(question: str, *, os: str, arch: str = "x86_64", gpu: str = "") -> Verdict:
    on = describe(FACTS, os=os, arch=arch, gpus=(gpu,) if gpu else ())
    return check(FACTS, on, Request(requirements=merge(tuple(parse_requirement(text) for text in question.split()))))


@pytest.mark.parametrize(
    ("question", "os", "clash"),
    [
        ("cuda==12.9.1", "debian13", "sinpi"),  # glibc 2.41
        ("cuda==12.8.1", "fedora42", "sinpi"),
        ("cuda==12.9.1", "ubuntu24.04", ""),  # 2.39
        ("cuda==13.0.2", "debian13", ""),
        ("cuda==13.0.2", "fedora43", "rsqrt"),  # 2.42
        ("cuda==13.1.1", "fedora43", "rsqrt"),
        ("cuda==13.2.0", "fedora43", ""),
    ],
)
def test_headers_that_do_not_compile_against_the_c_library_are_a_conflict(question: str, os: str, clash: str) -> None:
    found = [one.reason for one in ask(question, os=os).conflicts if "does not compile against glibc" in one.reason]
    assert [clash in text for text in found] == ([True] if clash else [])


@pytest.mark.parametrize(
    ("question", "os", "fits"),
    [
        ("nccl==2.32.3", "centos7", False),  # glibc 2.17; its library asks for 2.27
        ("nccl==2.27.7", "centos7", True),
        ("nccl==2.32.3", "rhel8.10", True),
        ("ffmpeg==9.0.2", "rhel7.9", False),  # GCC 4.8.5
        ("ffmpeg==7.1.5", "centos7", False),
        ("ffmpeg==7.0.2", "centos7", True),
        ("ffmpeg==9.0.2", "rhel8.10", True),
    ],
)
def test_a_c_library_or_compiler_that_is_too_old(question: str, os: str, fits: bool) -> None:
    assert bool(ask(question, os=os).conflicts) != fits


def test_the_newest_ffmpeg_that_a_systems_compiler_builds_is_planned() -> None:
    on = describe(FACTS, os="rhel7.9", arch="x86_64", gpus=("Tesla T4",))
    request = Request(requirements=merge((parse_requirement("ffmpeg"),)), methods={"ffmpeg": "source"})
    picks = {pick.component: pick.version for pick in resolve(FACTS, on, request).picks}
    assert picks["ffmpeg"] == "7.0.3"
