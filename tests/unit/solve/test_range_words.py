"""Ranges and rules as people read them: every form of a range, and every kind of rule, whole."""

from __future__ import annotations

import msgspec
import pytest

from gpustack.model.facts import Rule
from gpustack.solve.words import capitalised, contradiction_in_words, in_words, join_and, rule_in_words

RULE = Rule(id="x", of="cudnn", needs="cuda", any=(">=12,<13", "==11.8.*"), strength="required")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "any version"),
        (">=580", "580 or newer"),
        ("<=580", "580 or older"),
        (">580", "newer than 580"),
        ("<580", "older than 580"),
        ("==12.8", "12.8"),
        ("==12.*", "12.x"),
        ("!=12.8", "not 12.8"),
        ("!=12.*", "not 12.x"),
        ("~=12.8", "compatible with 12.8"),
        (">=12,<=13", "12 to 13"),
        (">=12,<13", "12.x"),
        (">=12.0,<13", "12.x"),
        (">=12.1,<13", "12.1 to before 13"),
        (">=12,<14", "12 to before 14"),
        (">=12,<13,!=12.4", "12 or newer and older than 13 and not 12.4"),
        (">=12,<=13,!=12.4", "12 or newer and 13 or older and not 12.4"),
        ("==12.* | ==11.*", "11.x or 12.x"),
        (">=13 | ==11.* | <10", "older than 10, 11.x, or 13 or newer"),
        (">12 | ~=10.1 | ==11.2", "compatible with 10.1, 11.2, or newer than 12"),
    ],
)
def test_a_range_in_words(text: str, said: str) -> None:
    assert in_words(text) == said


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "cuDNN 9 requires CUDA 11.8.x or 12.x"),
        ({"strength": "advised"}, "cuDNN 9 recommends CUDA 11.8.x or 12.x"),
        ({"none": ("==12.4.*",)}, "cuDNN 9 is not compatible with CUDA 12.4.x"),
        (
            {"needs": "compute-capability", "any": (">=7.5",)},
            "cuDNN 9 requires a GPU of compute capability 7.5 or newer",
        ),
        ({"equal": ("driver", "imex")}, "cuDNN 9 requires driver, IMEX in exactly the same version"),
        ({"says": "It is so."}, "It is so"),
    ],
)
def test_a_rule_in_words(fields: dict[str, object], said: str) -> None:
    assert rule_in_words(msgspec.structs.replace(RULE, **fields), "cuDNN 9") == said


def test_names_keep_their_small_letters() -> None:
    for name in ("nvcc", "libcuda", "glibc", "gcc", "cuDNN", "nv-codec-headers"):
        assert capitalised(f"{name} is here") == f"{name} is here"
    assert capitalised("driver 580 is here") == "Driver 580 is here"
    assert capitalised("") == ""


def test_lists_and_contradictions() -> None:
    assert [join_and(texts) for texts in ((), ("a",), ("a", "b"), ("a", "b", "c"))] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
    assert contradiction_in_words("cuda", ">=12,<13") == ""
    assert contradiction_in_words("cuda", ">=12,<11") == (
        "no version of CUDA is both 12 or newer and older than 11: cuda>=12 and cuda<11 exclude each other"
    )
