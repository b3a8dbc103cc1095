"""What a user reads beside yes and no: all advice, what would go instead, and where the facts end. Real facts."""

from __future__ import annotations

import pytest

from gpustack.detect.describe import describe
from gpustack.errors import NoSolutionError, UnsupportedError, UsageError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.request import Request
from gpustack.model.resolution import Verdict
from gpustack.solve.check import check
from gpustack.solve.requirements import merge, parse_requirement
from gpustack.solve.resolve import resolve


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def verdict(matrix: Matrix, texts: str, system: str, *gpus: str, arch: str | None = None) -> Verdict:
    host = describe(matrix, os=system, arch=arch, gpus=gpus, driver=None)
    request = Request(requirements=merge(tuple(parse_requirement(text) for text in texts.split())))
    return check(matrix, host, request, with_hints=True)


def refusal(matrix: Matrix, texts: str, system: str, *gpus: str) -> NoSolutionError:
    host = describe(matrix, os=system, arch="x86_64", gpus=gpus, driver=None)
    with pytest.raises(NoSolutionError) as caught:
        resolve(matrix, host, Request(requirements=merge(tuple(parse_requirement(text) for text in texts.split()))))
    return caught.value


def test_every_advice_is_told_not_the_first_alone(matrix: Matrix) -> None:
    warnings = verdict(matrix, "cuda==12.3.2 driver==525.60.13", "ubuntu24.04").warnings
    assert len(warnings) == 3
    assert any("do not build on Linux 6.3" in text for text in warnings)
    assert any("belongs to driver 545.23.06" in text for text in warnings)
    assert any(
        "gcc 6 to 12" in text and text.endswith("the default of Ubuntu 24.04 LTS is GCC 13.3.0") for text in warnings
    )


@pytest.mark.parametrize(
    ("texts", "system", "gpus", "hints"),
    [
        ("cuda==12.4.1", "ubuntu24.04", ("RTX 5090",), ("try cuda==12.9.2, which is compatible with this host",)),
        (
            "driver==595.58.03",
            "ubuntu24.04",
            ("GTX 1050",),
            ("try driver==580.178.04, which is compatible with this host",),
        ),
        (
            "cuda==12.4.1 driver==460.80",
            "ubuntu22.04",
            ("A100-SXM4-80GB",),
            (
                "try cuda==11.2.2, which is compatible with driver 460.80",
                "try driver==595.112.07, which is compatible with cuda 12.4.1",
            ),
        ),
        (
            "nv-codec-headers==13.0.19.0 driver==550.54.14",
            "ubuntu22.04",
            (),
            (
                "try nv-codec-headers==12.2.72.0, which is compatible with driver 550.54.14",
                "try driver==595.112.07, which is compatible with nv-codec-headers 13.0.19.0",
            ),
        ),
        (
            "driver==575.57.08 cuda==13.0.2 cudnn==8.9.7",
            "ubuntu24.04",
            ("RTX 5090",),
            ("compatible here: driver==595.112.07, cuda==13.2.2, cudnn==9.28.0.42",),
        ),
        ("driver==580.95.05", "ubuntu24.04", ("GTX 1080", "RTX 5090"), ()),
        ("cuda==12.4.1", "alpine3.20", ("T4",), ()),
    ],
)
def test_an_incompatible_combination_comes_with_what_would_go(
    matrix: Matrix, texts: str, system: str, gpus: tuple[str, ...], hints: tuple[str, ...]
) -> None:
    answer = verdict(matrix, texts, system, *gpus)
    assert answer.conflicts
    assert sorted(answer.hints) == sorted(hints)


def test_what_fits_has_no_hint(matrix: Matrix) -> None:
    answer = verdict(matrix, "cuda==12.8.1 driver==570.124.06", "ubuntu24.04", "RTX 5090")
    assert answer.verdict == "compatible"
    assert (answer.hints, answer.warnings, answer.unknown) == ((), (), ())


@pytest.mark.parametrize(
    "texts", ["driver==580.95.05", "cuda==12.4.1", "cudnn==9.1.0", "tensorrt==10.3.0", "triton==24.08"]
)
@pytest.mark.parametrize("system", ["alpine3.20", "freebsd14"])
def test_what_nvidia_ships_does_not_run_on_another_libc_or_kernel(matrix: Matrix, texts: str, system: str) -> None:
    answer = verdict(matrix, texts, system, "T4", arch="x86_64")
    assert [conflict.between[1] for conflict in answer.conflicts] == [
        {"alpine3.20": "os: Alpine Linux", "freebsd14": "os: FreeBSD"}[system]
    ]
    assert answer.conflicts[0].sources


def test_headers_that_are_only_compiled_against_are_not_refused_for_a_libc(matrix: Matrix) -> None:
    assert verdict(matrix, "nv-codec-headers==12.2.72.0 ffmpeg==7.1", "alpine3.20", arch="x86_64").compatible


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ("triton==24.08", "Jetson has builds of its own"),
        ("driver==580.95.05", "part of Jetson Linux"),
        ("fabric-manager==580.95.05", "servers with NVSwitches"),
    ],
)
def test_a_jetson_is_not_judged_by_the_facts_of_servers(matrix: Matrix, texts: str, reason: str) -> None:
    answer = verdict(matrix, texts, "l4t36", "Jetson AGX Orin", arch="aarch64")
    assert not answer.compatible
    assert not answer.conflicts
    assert any(reason in one.reason for one in answer.unknown)
    assert verdict(matrix, "cuda==12.6.3", "l4t36", "Jetson AGX Orin", arch="aarch64").compatible


@pytest.mark.parametrize(
    ("gpu", "has_none"), [("H200", True), ("A100-PCIE-40GB", True), ("L40S", False), ("T4", False)]
)
def test_a_gpu_without_nvenc_is_told_beside_the_yes(matrix: Matrix, gpu: str, has_none: bool) -> None:
    answer = verdict(matrix, "ffmpeg==7.1.1", "ubuntu24.04", gpu)
    assert answer.compatible
    assert any("no NVENC" in text for text in answer.warnings) == has_none


@pytest.mark.parametrize("texts", ["cuda==99.0", "driver==999.1", "cudnn==10.0", "triton==31.01"])
def test_a_version_newer_than_all_facts_is_told_with_their_date(matrix: Matrix, texts: str) -> None:
    (told,) = verdict(matrix, texts, "ubuntu22.04").unknown
    newest = max(source.read for source in matrix.sources(texts.partition("=")[0]).values())
    assert f"the newest of the facts, which were read on {newest}" in told.reason
    assert "--matrices" in told.reason


def test_a_version_for_other_systems_is_told_as_that(matrix: Matrix) -> None:
    (told,) = verdict(matrix, "nccl==2.28.3", "windows11").unknown
    assert told.reason.endswith(
        "NCCL 2.28.3 is known for Linux, not for Windows; no release of NCCL is known for Windows on x86_64"
    )


@pytest.mark.parametrize(
    ("texts", "system", "gpus", "first"),
    [
        ("cuda==11.4.*", "ubuntu22.04", (), "try cuda==11.8.0, which is available here"),
        ("cuda==12.0.*", "ubuntu24.04", (), "try cuda==12.9.2, which is available here"),
        ("cuda==13.*", "ubuntu24.04", ("GTX 1080",), "try cuda==12.9.2, which is available here"),
    ],
)
def test_the_nearest_thing_that_works_stays_in_the_line_asked_for(
    matrix: Matrix, texts: str, system: str, gpus: tuple[str, ...], first: str
) -> None:
    assert refusal(matrix, texts, system, *gpus).hint.partition("\n")[0] == first


def test_only_ways_of_this_system_are_hints(matrix: Matrix) -> None:
    for text in ("cuda==12.0.*", "cuda==12.4.1"):
        assert "ubuntu2204" not in refusal(matrix, text, "ubuntu24.04").hint


def test_names_keep_their_small_letter_at_the_head_of_a_sentence(matrix: Matrix) -> None:
    (conflict,) = verdict(matrix, "cuda==13.0.2", "rhel7", "T4").conflicts
    assert conflict.reason.startswith("libcusolver of CUDA 12.8")


def test_a_board_that_ended_before_its_architecture_is_refused(matrix: Matrix) -> None:
    assert verdict(matrix, "driver==367.27", "ubuntu16.04", "GRID K340").compatible
    (conflict,) = verdict(matrix, "driver==470.256.02", "ubuntu16.04", "GRID K340").conflicts
    assert "R367 is the last branch" in conflict.reason
    assert verdict(matrix, "driver==470.256.02", "ubuntu16.04", "GTX 680").compatible


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("cuda=12.4", "write cuda==12.4, or cuda==12.4.* for any release of that line"),
        ("cuda 12.4", "write cuda==12.4, or cuda==12.4.* for any release of that line"),
        ("cuda==v13.0.2", "write cuda==13.0.2"),
        ("driver==R580", "write driver==580, or driver==580.* for any release of that line"),
        ("cuda==latest", "leave the version out to get the newest compatible one: cuda"),
        ("cuda>=12.4 <13", "write cuda>=12.4,<13"),
        ("cuda=>12", "write cuda>=12"),
        ("cuda12.4", "did you mean cuda==12.4.*?"),
        ("cuda-12-4", "did you mean cuda==12.4.*?"),
        ("libcudnn9", "did you mean cudnn==9.*?"),
        ("cuda==", "write for example cuda>=12.4,<13 or cuda==12.4.*; the vendor's versions are numbers"),
        ("cuda==1!2", "write for example cuda>=12.4,<13 or cuda==12.4.*; the vendor's versions are numbers"),
    ],
)
def test_a_misspelt_requirement_comes_with_what_was_meant(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_requirement(text)
    assert caught.value.hint == hint


@pytest.mark.parametrize(("spelled", "meant"), [("sm_90", "cc:9.0"), ("compute_120", "cc:12.0"), ("SM 8.6", "cc:8.6")])
def test_a_capability_spelled_as_for_a_compiler_is_told_how(matrix: Matrix, spelled: str, meant: str) -> None:
    with pytest.raises(UsageError, match="unknown GPU name") as caught:
        describe(matrix, os="ubuntu24.04", arch=None, gpus=(spelled,), driver=None)
    assert caught.value.hint == f"write a compute capability as {meant}"


@pytest.mark.parametrize(
    ("texts", "system", "told"),
    [
        ("tensorrt==10.13.*", "ubuntu22.04", "8.6.0 was the last whole wheel on the package index"),
        ("tensorrt==10.*", "windows11", "no wheels for Windows before TensorRT 10"),
    ],
)
def test_pip_says_why_it_has_no_newer_tensorrt(matrix: Matrix, texts: str, system: str, told: str) -> None:
    host = describe(matrix, os=system, arch="x86_64", gpus=("L4",), driver=None)
    request = Request(requirements=(parse_requirement(texts),), methods={"tensorrt": "pip"})
    with pytest.raises((NoSolutionError, UnsupportedError)) as caught:
        resolve(matrix, host, request)
    assert told in caught.value.message


@pytest.mark.parametrize(
    ("texts", "told"),
    [  # triton-inference-server/server issues 5812 and 7613
        ("triton==23.04 tensorrt==8.6.0", ("Triton 23.04 holds TensorRT 8.6.1.2", "nvcr.io/nvidia/tensorrt:23.04-py3")),
        ("triton==24.01 tensorrt==10.4.0", ("this is 10.4.0.26", "nvcr.io/nvidia/tensorrt:24.01-py3")),
        ("triton==23.04 tensorrt==8.6.1", ()),
        ("triton==23.04", ()),
    ],
)
def test_an_engine_of_another_release_than_the_images_is_told(
    matrix: Matrix, texts: str, told: tuple[str, ...]
) -> None:
    found = [text for text in verdict(matrix, texts, "ubuntu22.04", "L4").warnings if "engine loads only" in text]
    assert len(found) == bool(told)
    assert all(words in found[0] for words in told)
