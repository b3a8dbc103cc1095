"""Codecs and encode sessions of a GPU, asked through ``check``."""

from __future__ import annotations

import pytest

from gpustack.detect.describe import describe
from gpustack.errors import UsageError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.request import Beside, Request
from gpustack.model.resolution import Verdict
from gpustack.solve.check import check
from gpustack.solve.codecs import DECODED, ENCODED, codec_word
from gpustack.solve.requirements import merge, parse_requirement


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def ask(matrix: Matrix, question: str, *gpus: str, os: str = "ubuntu24.04") -> Verdict:
    words = question.split()
    codecs = tuple(word for text in words if (word := codec_word(text)) is not None)
    components = tuple(parse_requirement(text) for text in words if codec_word(text) is None)
    host = describe(matrix, os=os, arch=None, gpus=gpus)
    return check(matrix, host, Request(requirements=merge(components)), beside=Beside(codecs=codecs))


@pytest.mark.parametrize(
    ("question", "gpu", "verdict"),
    [
        # NVIDIA's support matrix of encoders and decoders
        ("nvenc-av1", "RTX 4090", "compatible"), ("nvenc-av1", "RTX 3090", "incompatible"),
        ("nvenc-av1 nvdec-hevc-422", "RTX 4090", "incompatible"), ("nvdec-av1", "RTX 3090", "compatible"),
        ("nvenc-hevc-422", "RTX 5090", "compatible"), ("nvenc-hevc-422", "RTX 4090", "incompatible"),
        ("nvenc-h264-10bit", "RTX 5070", "compatible"), ("nvenc-h264-10bit", "L40S", "incompatible"),
        ("nvdec-hevc-422", "RTX 5090", "compatible"), ("nvdec-h264-10bit", "L4", "incompatible"),
        ("nvenc-h264", "H200", "incompatible"), ("nvenc-hevc", "A100-SXM4-80GB", "incompatible"),
        ("nvdec-hevc-10bit", "H200", "compatible"), ("nvdec-av1", "A100-SXM4-80GB", "incompatible"),
        ("nvenc-hevc-bframes", "RTX 2080", "compatible"), ("nvenc-hevc-bframes", "GTX 1080", "incompatible"),
        ("nvenc-h264", "GeForce GTX 280", "incompatible"),
        # what no fact says is never a yes
        ("nvdec-vp9-12bit", "GTX 1080", "unknown"), ("nvenc-av1", "cc:8.9", "unknown"),
        ("nvenc-av1", "Jetson AGX Orin", "unknown"), ("nvenc-h264", "GRID T4-16Q", "unknown"),
        ("nvdec-hevc", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "unknown"),
        # but what the whole GPU does not do, no part of it does
        ("nvenc-av1", "NVIDIA A10-24Q", "incompatible"),
        # the driver and the headers that an ability came with
        ("nvenc-hevc-422 driver==570.124.06", "RTX 5090", "compatible"),
        ("nvenc-av1 driver==580.95.05 nv-codec-headers==12.0.16.1", "L4", "compatible"),
        ("nvenc-av1 nv-codec-headers==11.1.5.3", "L4", "incompatible"),
        # sessions at once
        ("nvenc-sessions==100", "L40S", "compatible"), ("nvenc-sessions==13", "RTX 4090", "incompatible"),
        ("nvenc-sessions==8 driver==580.95.05", "RTX 4090", "compatible"),
        ("nvenc-sessions>=12 driver==580.95.05", "RTX 4090", "unknown"),
        ("nvenc-sessions==2", "RTX 3060", "compatible"), ("nvenc-sessions==5", "RTX 3060", "unknown"),
        ("nvenc-sessions==1", "H200", "incompatible"), ("nvenc-sessions==1", "cc:8.9", "unknown"),
    ],
)  # fmt: skip
def test_codecs_of_a_gpu(question: str, gpu: str, verdict: str, matrix: Matrix) -> None:
    assert ask(matrix, question, gpu).verdict == verdict


def test_twelve_sessions_on_windows_are_known_from_their_first_driver_on(matrix: Matrix) -> None:
    assert ask(matrix, "nvenc-sessions==12 driver==616.56", "RTX 4080", os="windows11").verdict == "compatible"
    assert ask(matrix, "nvenc-sessions==12 driver==566.36", "RTX 4080", os="windows11").verdict == "unknown"


def test_a_refusal_names_the_engine_its_generation_and_the_page(matrix: Matrix) -> None:
    (conflict,) = ask(matrix, "nvdec-hevc-422", "RTX 4090").conflicts
    assert conflict.kind == "video-engine"
    assert conflict.between == ("nvdec-hevc-422", "gpu: GeForce RTX 4090")
    assert "does not decode HEVC 4:2:2: generation 6 of it is the first that does, this one is 5" in conflict.reason
    assert "https://developer.nvidia.com/video-encode-decode-support-matrix" in conflict.sources


def test_the_driver_that_an_ability_requires_is_said_where_none_is_given(matrix: Matrix) -> None:
    assert ask(matrix, "nvenc-av1", "L4").warnings == ("nvenc-av1 requires driver 520.56.06 or newer",)


def test_without_a_gpu_there_is_no_verdict_and_the_option_is_named(matrix: Matrix) -> None:
    (unknown,) = ask(matrix, "nvenc-av1").unknown
    assert (unknown.needs, unknown.option) == ("gpu", "--gpu")


def test_one_of_several_gpus_suffices_and_the_others_are_named(matrix: Matrix) -> None:
    verdict = ask(matrix, "nvenc-av1", "L4", "A100-SXM4-80GB")
    assert verdict.verdict == "compatible"
    assert any("A100-SXM4-80GB" in text for text in verdict.warnings)


def test_a_codec_that_cannot_be_asked_for_is_wrong_usage_with_those_that_can() -> None:
    with pytest.raises(UsageError) as caught:
        codec_word("nvenc-av9")
    assert "nvenc-av1" in caught.value.hint
    assert codec_word("nv-codec-headers==13.0.19.0") is None


def test_every_ability_is_a_column_of_its_classes(matrix: Matrix) -> None:
    _, _, encode = matrix.table_head("nvenc", "encode_classes")
    _, _, decode = matrix.table_head("nvenc", "decode_classes")
    assert set(ENCODED.values()) <= set(encode)
    assert {column for column, _ in DECODED.values()} <= set(decode)
    needs = {row["ability"] for row in matrix.rows("nvenc", "codec_needs", dict)}
    assert needs <= {f"nvenc-{one}" for one in ENCODED} | {f"nvdec-{one}" for one in DECODED}
