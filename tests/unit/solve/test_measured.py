"""What a host compiler and a C library mean for a toolkit, asked as users ask it."""

from __future__ import annotations

import pytest

from gpustack.detect.describe import describe
from gpustack.matrix.index import load_matrix
from gpustack.model.request import Request
from gpustack.model.resolution import Verdict
from gpustack.solve.check import check
from gpustack.solve.requirements import merge, parse_requirement

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
def test_headers_that_do_not_compile_against_the_c_library_are_a_warning(question: str, os: str, clash: str) -> None:
    found = [text for text in ask(question, os=os).warnings if "does not compile against glibc" in text]
    assert [clash in text for text in found] == ([True] if clash else [])
