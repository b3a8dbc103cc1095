"""Verdicts: compatible, incompatible with the right blame, unknown; advice is a warning."""

from __future__ import annotations

import pytest
from tests.small_matrix import BLACKWELL, HOPPER, PASCAL, host, small_matrix

from gpustack.detect.describe import describe
from gpustack.matrix.index import load_matrix
from gpustack.model.host import Host
from gpustack.model.request import Request
from gpustack.model.resolution import Verdict
from gpustack.solve.check import check
from gpustack.solve.requirements import merge, parse_requirement

MATRIX = small_matrix()
FACTS = load_matrix()


def ask(on: Host, *texts: str) -> Verdict:
    return check(MATRIX, on, Request(requirements=merge(tuple(parse_requirement(text) for text in texts))))


def test_a_combination_that_fits() -> None:
    assert ask(host(HOPPER), "cuda==12.2.0", "driver==535.1", "cudnn==8.9.7") == Verdict(
        verdict="compatible", compatible=True
    )


@pytest.mark.parametrize(
    ("on", "texts", "between", "reason"),
    [
        (
            host(HOPPER),
            ("cuda==13.0.0", "driver==535.1"),
            ("cuda==13.0.0", "driver==535.1"),
            "CUDA 13 or newer requires driver 580 or newer; this is driver 535.1. On data-centre GPUs the cuda-compat package"
            " of that CUDA release may bridge this (forward compatibility); on which driver branches it works is unknown.",
        ),
        (
            host(PASCAL),
            ("driver==595.1",),
            ("driver==595.1", "gpu: GTX Old"),
            "Driver 590 or newer requires a GPU of compute capability 7.5 or newer."
            " This host has GTX Old (compute capability 6.1). The last driver branch for GTX Old is 580.",
        ),
        (
            host(HOPPER, driver="450.1"),
            ("cuda==12.2.0",),
            ("cuda==12.2.0", "driver==450.1"),
            "CUDA 12.x requires driver 525 or newer; installed here is driver 450.1."
            " On data-centre GPUs the cuda-compat package of that CUDA release may bridge this (forward compatibility);"
            " on which driver branches it works is unknown.",
        ),
        (
            host(),
            ("driver==535.1", "fabric-manager==535.2"),
            ("driver==535.1", "fabric-manager==535.2"),
            "Fabric Manager requires driver in exactly the same version; this is driver 535.1.",
        ),
    ],
)
def test_a_conflict_names_both_sides_and_says_why(
    on: Host, texts: tuple[str, ...], between: tuple[str, ...], reason: str
) -> None:
    verdict = ask(on, *texts)
    assert not verdict.compatible
    assert [conflict.reason for conflict in verdict.conflicts] == [reason]
    assert verdict.conflicts[0].between == between
    assert verdict.conflicts[0].sources


def test_a_conflict_over_a_third_component_blames_what_was_given() -> None:
    verdict = ask(host(HOPPER), "cudnn==9.1.0", "driver==450.1")
    assert [conflict.between for conflict in verdict.conflicts] == [("cudnn==9.1.0", "driver==450.1")]


@pytest.mark.parametrize(
    ("on", "texts", "kinds"),
    [
        (host(HOPPER), ("cuda==13.0.0", "driver==535.1"), ["refused-pair"]),
        (host(PASCAL), ("driver==595.1",), ["refused-by-host"]),
        (host(PASCAL, BLACKWELL), ("driver",), ["no-common-flavour"]),
        (host(HOPPER), ("cudnn==9.1.0", "driver==450.1"), ["no-combination"]),
    ],
)
def test_a_conflict_has_the_id_of_its_kind(on: Host, texts: tuple[str, ...], kinds: list[str]) -> None:
    assert [conflict.kind for conflict in ask(on, *texts).conflicts] == kinds


def test_a_system_that_runs_nothing_of_nvidias_is_a_kind_of_its_own() -> None:
    facts = load_matrix(None)
    on = describe(facts, os="alpine3.20", arch="x86_64", gpus=("T4",), driver=None)
    verdict = check(facts, on, Request(requirements=(parse_requirement("cuda==12.4.1"),)))
    assert [conflict.kind for conflict in verdict.conflicts] == ["foreign-system"]


def test_a_version_that_no_fact_knows_is_unknown_and_the_nearest_are_named() -> None:
    verdict = ask(host(HOPPER), "cuda==12.7.0")
    assert not verdict.compatible
    assert not verdict.conflicts
    assert [one.reason for one in verdict.unknown] == [
        "cuda==12.7.0: this version is not known; the nearest known are 12.2.0 and 12.8.0"
    ]
    assert verdict.verdict == "unknown"


def test_one_nearest_version_is_one_and_two_versions_of_one_thing_are_a_conflict_only() -> None:
    assert ask(host(HOPPER), "cuda==99").unknown[0].reason.partition("; ")[2].startswith("the nearest known is ")
    verdict = ask(host(HOPPER), "cuda==12.2.0,==12.8.0")
    assert verdict.conflicts
    assert not verdict.unknown


def test_a_known_conflict_wins_over_an_unknown_version() -> None:
    verdict = ask(host(HOPPER), "cuda==13.7.0", "driver==535.1")
    assert verdict.conflicts
    assert verdict.unknown


def test_fewer_numbers_name_the_line() -> None:
    assert ask(host(HOPPER), "cudnn==8.9", "cuda==11.8").compatible


def test_breached_advice_is_a_warning() -> None:
    verdict = ask(host(HOPPER), "cuda==13.2.0", "driver==595.1")
    assert verdict.compatible
    assert verdict.warnings == ("CUDA 13.2.x recommends driver 600 or newer; this is 595.1",)


@pytest.mark.parametrize(
    ("driver", "sentence"),
    [
        (
            "570.86.15",
            "Forward compatibility bridges this on data-centre GPUs: cuda-compat-13-0 installed with the toolkit",
        ),
        (
            "550.54.15",
            "Forward compatibility, cuda-compat-13-0 on data-centre GPUs, is stated for driver branch 535 and 570 only.",
        ),
    ],
)
def test_forward_compatibility_is_told_by_the_branch_where_a_fact_does(driver: str, sentence: str) -> None:
    facts = load_matrix(None)
    on = describe(facts, os="ubuntu24.04", arch="x86_64", gpus=("H200",), driver=None)
    asked = merge((parse_requirement("cuda==13.0.2"), parse_requirement(f"driver=={driver}")))
    verdict = check(facts, on, Request(requirements=asked))
    assert [conflict.between for conflict in verdict.conflicts] == [("cuda==13.0.2", f"driver=={driver}")]
    assert sentence in verdict.conflicts[0].reason


@pytest.mark.parametrize(
    ("asked", "system", "arch", "verdict"),
    [
        ("tensorrt==8.5.3", "rhel8.6", "ppc64le", "compatible"),
        ("tensorrt==10.1.0", "rhel8.10", "ppc64le", "unknown"),
        ("tensorrt==8.6.1", "windows11", "aarch64", "unknown"),
        ("tensorrt==9.3.0", "windows11", "x86_64", "unknown"),
        ("nccl==2.21.5", "rhel8.6", "ppc64le", "compatible"),
        ("nccl==2.22.3", "rhel8.6", "ppc64le", "unknown"),
        ("cudnn==8.2.4", "rhel8.6", "ppc64le", "compatible"),
        ("cudnn==9.1.0", "rhel8.6", "ppc64le", "unknown"),
        ("cudnn==9.8.0", "windows11", "aarch64", "unknown"),
        ("cudnn==9.27.0", "windows11", "aarch64", "compatible"),
        ("cuda==12.4.1", "windows11", "aarch64", "unknown"),
        ("cuda==13.4.2", "windows11", "aarch64", "compatible"),
    ],
)
def test_a_release_is_judged_where_it_was_released(asked: str, system: str, arch: str, verdict: str) -> None:
    host = describe(FACTS, os=system, arch=arch, gpus=())
    answer = check(FACTS, host, Request(requirements=(parse_requirement(asked),)))
    assert answer.verdict == verdict
    assert verdict == "compatible" or "not for" in answer.unknown[0].reason


@pytest.mark.parametrize("component", ["cudnn", "nccl", "tensorrt"])
def test_every_judged_release_of_a_library_says_for_which_architectures_it_is(component: str) -> None:
    assert [row.version for row in FACTS.releases(component) if row.is_judged and not row.arch] == []
