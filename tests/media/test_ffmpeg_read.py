"""What FFmpeg says is read rightly: lists, errors of every generation, commands of the guide."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpustack.matrix.index import Matrix, load_matrix
from gpustack.verify.ffmpeg import lists
from gpustack.verify.ffmpeg.binary import api_of
from gpustack.verify.ffmpeg.causes import CAUSES, SUBJECT, Pattern, Setup, key_of
from gpustack.verify.ffmpeg.diagnosis import ExitCode, diagnose, exit_status
from gpustack.verify.ffmpeg.engines import (
    Chip,
    session_limit,
)
from gpustack.verify.ffmpeg.guide import Row, adapt_to_release, insert_before_inputs
from gpustack.verify.ffmpeg.media import streams
from gpustack.verify.nv_codec_headers.api import HeadersRow, api_of_driver, api_of_headers, driver_for_api

H200 = Path(__file__).parent.parent / "fixtures" / "h200"
V5, V9 = lists.About(word="5.1.9", version="5.1.9", major=5), lists.About(word="9.0.2", version="9.0.2", major=9)


def test_a_build_from_a_branch_tells_its_release_by_libavcodec() -> None:
    told = lists.about(
        "ffmpeg version N-117000-gabc Copyright\nconfiguration: --enable-x\nlibavcodec     61. 19.100 / 61.19\n"
    )
    assert (told.version, told.major, told.options) == ("", 7, ("--enable-x",))
    assert told.is_before(8)
    assert not told.is_before(7)


def test_filters_are_read_in_the_form_before_and_after_7_1() -> None:
    old = " T.. = Timeline support\n ... scale_cuda        V->V       GPU accelerated video resizer\n"
    new = " T. = Timeline support\n .. scale_cuda        V->V       GPU accelerated video resizer\n"
    assert lists.filters(old) == lists.filters(new) == {"scale_cuda"}


ROWS = load_matrix(None).rows(SUBJECT, "errors", dict)
INFORMS = {"gpu_list", "format_converted"}
"""What is printed although nothing failed."""


def printed(row: dict[str, str]) -> list[str]:
    """The texts of a row, each as a run prints it: a slash parts lines or other forms, so each is tried with the rest.

    In the rows themselves cuXxx stands for any function, and two releases' forms may be parted by a semicolon.
    """
    whole = row["text"].replace("cuXxx", "cuCtxCreate_v3").replace(" / ", "\n")
    return [part for part in re.split(r" \(<=[\d.]+\); | \(>=[\d.]+\)", whole) if part]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['key']}-{number}" for number, row in enumerate(ROWS)])
def test_every_error_of_the_facts_is_recognised_and_has_cause_and_cure(matrix: Matrix, row: dict[str, str]) -> None:
    known = {
        "Unable to choose an output format",
        "Undefined constant or missing '(' in 'llhq'",
    }  # say no more themselves
    for text in printed(row):
        if text in known:
            continue
        assert key_of(matrix, text) == row["key"], text
        if row["key"] in INFORMS:
            continue
        told = diagnose(matrix, text, 1, Setup(driver="580.159.04", chip=Chip(name="L4", nvenc=2), about=V9))
        assert not told.cause.startswith("FFmpeg stopped"), told
        assert told.fix
        assert "(unknown)" not in told.cause + told.fix


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['key']}-{number}" for number, row in enumerate(ROWS)])
def test_every_exit_status_of_the_facts_means_something_from_6_1_on(matrix: Matrix, row: dict[str, str]) -> None:
    for code in (int(one) for one in re.findall(r"\b\d{3}\b", row["exit_code"])):
        assert re.search(r"\(.+\)", exit_status(matrix, code, V9)), code


def test_every_exit_code_of_the_facts_is_told_by_its_meaning(matrix: Matrix) -> None:
    rows = matrix.rows(SUBJECT, "exit_codes", ExitCode)
    assert {row.code for row in rows} >= {1, 8, 171, 187, 218, 234, 255}
    for row in rows:
        told = exit_status(matrix, row.code, V9)
        assert told == "a crash (signal 11)" if row.code == 139 else row.meaning in told
    # The same number means nothing where every failure is 1, and something else where the system gave it.
    assert exit_status(matrix, 187, V5) == "exit status 187"


def test_every_kind_of_error_has_texts_by_which_it_is_known(matrix: Matrix) -> None:
    keys = {row["key"] for row in ROWS}
    assert keys == {row.key for row in matrix.rows(SUBJECT, "classify", Pattern)}
    assert keys - INFORMS <= set(CAUSES)


def test_the_driver_is_named_for_every_api_that_the_facts_know(matrix: Matrix) -> None:
    """FFmpeg's own sentence is a constant of the build: "(unknown)", or the number of older headers."""
    apis = {row.api for row in matrix.rows("nv-codec-headers", "releases", HeadersRow) if row.api}
    assert len(apis) > 10
    for api in apis:
        for hint in ("(unknown)", "470.57.02", "378.13"):
            text = (
                f"Driver does not support the required nvenc API version. Required: {api} Found: 4.0\n"
                f"The minimum required Nvidia driver for nvenc is {hint} or newer\n"
            )
            told = diagnose(matrix, text, 218, Setup(driver="361.28", about=V9))
            first = driver_for_api(matrix, api)
            assert first is not None
            assert f"which requires driver {first} or newer" in told.cause
            assert hint == first or hint not in told.cause + told.fix


def test_the_driver_that_is_needed_is_named_even_where_ffmpeg_says_unknown(matrix: Matrix) -> None:
    text = (
        "Driver does not support the required nvenc API version. Required: 12.1 Found: 11.1\n"
        "The minimum required Nvidia driver for nvenc is (unknown) or newer\n"
    )
    told = diagnose(matrix, text, 218, Setup(driver="515.48.07", about=V9))
    assert told.key == "driver_too_old"
    assert told.needs == "NVENC API 12.1 (driver 530.41.03 or newer)"
    assert told.has == "NVENC API 11.1 (driver 515.48.07)"
    assert "(unknown)" not in told.cause + told.fix
    assert "gpustack install 'driver>=530.41.03'" in told.fix


def test_an_api_that_no_fact_knows_is_told_without_a_number(matrix: Matrix) -> None:
    told = diagnose(
        matrix,
        "required nvenc API version. Required: 99.0 Found: 13.0\ndoes not support the required nvenc API version",
        1,
        Setup(),
    )
    assert "the driver" in told.cause


@pytest.mark.parametrize(
    ("log", "code", "about", "key", "words"),
    [
        ("nvenc-refused-5.1.9", 1, V5, "no_nvenc", "H200 has no NVENC (no hardware encoder)"),
        ("nvenc-refused-5.1.9-cuda-frames", 1, V5, "no_nvenc", "H200 has no NVENC"),
        ("nvenc-api-9.0.2", 218, V9, "driver_too_old", "was built for NVENC API 13.1"),
        (
            "nvdec-surfaces-5.1.9",
            1,
            V5,
            "too_many_surfaces",
            "uses more threads on this machine than NVDEC has surfaces",
        ),
    ],
)
def test_what_an_h200_really_said(
    matrix: Matrix, log: str, code: int, about: lists.About, key: str, words: str
) -> None:
    """Recorded on 2026-11-21 on an H200 with driver 580.159.04."""
    text = (H200 / f"{log}.log").read_text(encoding="utf-8")
    told = diagnose(matrix, text, code, Setup(chip=Chip(name="H200", nvenc=0), driver="580.159.04", about=about))
    assert told.key == key
    assert words in told.cause


@pytest.mark.parametrize(
    ("scene", "words"),
    [
        (Setup(chip=Chip(name="RTX 4090", sessions="12", nvenc=2), limit=12), "allows 12 at once"),
        (Setup(chip=Chip(name="L4", sessions="unrestricted", nvenc=2)), "the memory of L4 is full"),
        (Setup(chip=Chip(name="unknown")), "session limit is reached, or the GPU's memory is full"),
    ],
)
def test_out_of_memory_is_a_limit_or_memory_by_the_board(matrix: Matrix, scene: Setup, words: str) -> None:
    told = diagnose(
        matrix, "OpenEncodeSessionEx failed: out of memory (10): (no details)\nNo capable devices found", 1, scene
    )
    assert words in told.cause


def test_a_container_that_sees_some_gpus_is_not_a_chip_without_encoder(matrix: Matrix) -> None:
    text = "OpenEncodeSessionEx failed: unsupported device (2): (no details)\nNo capable devices found"
    told = diagnose(matrix, text, 187, Setup(chip=Chip(name="L40S", nvenc=3), in_container=True, about=V9))
    assert "has one: drivers 565 to 595" in told.cause
    assert "610" in told.fix


@pytest.mark.parametrize(
    ("scene", "cause", "cure"),
    [
        (Setup(in_container=True), "no NVIDIA driver is available in this container", "--gpus all"),
        (
            Setup(hidden_libcuda="/opt/nv/libcuda.so.1"),
            "/opt/nv/libcuda.so.1 is not on the loader's path",
            "/etc/ld.so.conf.d",
        ),
        (Setup(), "libcuda.so.1 was not found", "gpustack install driver"),
    ],
)
def test_a_missing_libcuda_has_three_causes(matrix: Matrix, scene: Setup, cause: str, cure: str) -> None:
    told = diagnose(matrix, "[h264_nvenc @ 0x0] Cannot load libcuda.so.1", 255, scene)
    assert cause in told.cause
    assert cure in told.fix


def test_ffmpegs_hint_about_the_driver_is_not_believed_where_the_library_is_missing(matrix: Matrix) -> None:
    text = "Cannot load libnvidia-encode.so.1\nThe minimum required Nvidia driver for nvenc is 470.57.02 or newer"
    told = diagnose(matrix, text, 255, Setup(in_container=True))
    assert "libnvidia-encode.so.1 is not available in this container" in told.cause
    assert "470" not in told.cause + told.fix


def test_exit_statuses_mean_something_from_6_1_on(matrix: Matrix) -> None:
    assert "use it for every failure" in exit_status(matrix, 1, V5)
    assert "NVENC API of the driver too old" in exit_status(matrix, 218, V9)
    assert "Cannot allocate memory" in exit_status(matrix, 244, V9)
    assert "crash (signal 11)" in exit_status(matrix, -11, V5)


def test_apis_headers_and_drivers(matrix: Matrix) -> None:
    assert api_of_headers("n8.2.15.1") == "8.1"
    assert driver_for_api(matrix, "13.0") == "570.0"
    assert driver_for_api(matrix, "10.0", "windows") == "445.87"
    assert api_of_driver(matrix, "580.159.04") == "13.0"
    assert api_of_driver(matrix, "300.1") is None


def test_session_limits_follow_the_driver(matrix: Matrix) -> None:
    geforce = Chip(name="RTX 4090", sessions="12")
    assert session_limit(matrix, geforce, "535.104.05") == 5
    assert session_limit(matrix, geforce, "555.42.02") == 8
    assert session_limit(matrix, Chip(name="L4", sessions="unrestricted"), "555.42.02") is None


def test_the_api_stands_out_of_chance() -> None:
    real = [bytes([13, 0, kind, 0x70]) for kind in range(1, 7)]
    chance = [bytes([8, 0, kind, 0xF0]) for kind in (6, 8, 11)]
    assert api_of(real + chance) == "13.0"
    assert api_of(chance) == ""
    assert api_of([*real, *(bytes([12, 0, kind, 0x71]) for kind in range(1, 7))]) == ""


ROW = Row(
    key="hq_slow",
    order=1,
    purpose="",
    command="ffmpeg -y -vsync 0 -i in.mp4 -vf scale_npp=1:2 -c:v h264_nvenc -preset slow out.mp4",
    modern="ffmpeg -y -i in.mp4 -vf scale_cuda=1:2 -fps_mode passthrough -c:v h264_nvenc -preset p7 -tune hq -multipass fullres out.mp4",
)


@pytest.mark.parametrize(
    ("version", "has_npp", "wanted"),
    [
        ("4.2", False, "-y -vsync 0 -i in.mp4 -vf scale_cuda=1:2 -c:v h264_nvenc -preset slow out.mp4"),
        (
            "4.4",
            True,
            "-y -vsync 0 -i in.mp4 -vf scale_npp=1:2 -c:v h264_nvenc -preset p7 -tune hq -multipass fullres out.mp4",
        ),
        (
            "9.0",
            False,
            "-y -i in.mp4 -vf scale_cuda=1:2 -fps_mode passthrough -c:v h264_nvenc -preset p7 -tune hq -multipass fullres out.mp4",
        ),
    ],
)
def test_commands_are_spelled_as_each_release_takes_them(version: str, has_npp: bool, wanted: str) -> None:
    about = lists.About(version=version, major=int(version[0]))
    assert " ".join(adapt_to_release(ROW, about, has_npp=has_npp)) == wanted


def test_options_before_every_input() -> None:
    assert insert_before_inputs(("-y", "-i", "a", "-i", "b"), ("-threads", "8")) == (
        "-y",
        "-threads",
        "8",
        "-i",
        "a",
        "-threads",
        "8",
        "-i",
        "b",
    )


def test_streams_of_a_file() -> None:
    found = streams(
        "  Duration: 00:01:02.50, start: 0.000000, bitrate: 803 kb/s\n"
        "  Stream #0:0[0x1](und): Video: hevc (Main) (hev1 / 0x31766568), yuv420p(tv), 480x270 [SAR 1:1 DAR 16:9], 25 fps\n"
        "  Stream #0:1: Audio: aac (LC), 44100 Hz\n"
    )
    assert (found.codec, found.size, found.duration_s, found.audio) == ("hevc", (480, 270), 62.5, "aac")
