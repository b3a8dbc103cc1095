"""Real FFmpegs through a stand-in for the driver that really decodes, scales and encodes, in software.

No chip with NVENC is to be had: FFmpeg, the checks, what they look at and how they judge are real; the driver's three
libraries are not (stubs/). What they make is valid H.264 and H.265 of the very frames that FFmpeg handed over.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.media.conftest import T4, Check, host_with

from gpustack.matrix.index import Matrix
from gpustack.system.run import LocalRunner
from gpustack.verify.declare import Context, Outcome
from gpustack.verify.ffmpeg import bench, media
from gpustack.verify.ffmpeg import smoke as ffmpeg_smoke
from gpustack.verify.ffmpeg.causes import Setup
from gpustack.verify.ffmpeg.diagnosis import diagnose
from gpustack.verify.ffmpeg.engines import chip_of
from gpustack.verify.ffmpeg.full import guide
from gpustack.verify.ffmpeg.guide import guide_commands
from gpustack.verify.ffmpeg.programs import Location, describe, identify
from gpustack.verify.ffmpeg.transcode import Task, choose_way, judge_output, transcode

pytestmark = pytest.mark.usefixtures("software_gpu")
HOST = host_with(T4, driver="610.43.02")
RUN = LocalRunner()


@pytest.mark.parametrize("major", ["5", "9"])
def test_the_whole_way_through_the_gpu(check: Check, ffmpegs: dict[str, str], major: str) -> None:
    found = check("ffmpeg", "smoke", HOST, ffmpeg=ffmpegs[major])
    assert {one.status for one in found.values()} == {"pass"}, found
    assert found["ffmpeg.nvdec"].detail.startswith("-hwaccel cuda and h264_cuvid: 48 frames of 640x360, bit-identical")
    encoded = found["ffmpeg.nvenc"]
    left = {"5": "av1_nvenc is not compiled in", "9": "the GPU does not encode av1"}[major]
    called = f"{ffmpegs[major]} ({identify(Location(path=ffmpegs[major], origin=''), RUN).about.word}, given)"
    assert encoded.detail == f"decode, scale_cuda, encode: h264, hevc; {left} ({called})"
    for codec in ("h264", "hevc"):
        assert encoded.measurements[f"{codec}_frames"].value == media.CLIP_FRAMES
        # The stand-in's scaler is another than that of the software path, so the picture is near and not the same.
        assert 35 < float(encoded.measurements[f"{codec}_psnr"].value) < 60
        assert 0.98 < float(encoded.measurements[f"{codec}_ssim"].value) < 1


def ask(matrix: Matrix, folder: Path, path: str, function: object) -> Outcome:
    context = Context(host=HOST, matrix=matrix, runner=RUN, work=folder, given={"ffmpeg": path})
    found = function(context)  # type: ignore[operator]
    assert isinstance(found, Outcome)
    return found


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("drop:20", "h264_nvenc ran, but the output contains 47 frames instead of 48"),
        ("size", "h264_nvenc ran, but its size is 464x270 instead of 480x270"),
        (
            "grey",
            "h264_nvenc ran, but its image differs from the clip's: PSNR 11.8 dB and SSIM 0.740; required are at least 30 dB and 0.95",
        ),
        ("memory", "encoding with h264_nvenc: the memory of Tesla T4 is full"),
    ],
)
def test_what_an_encoder_does_wrong_is_found_out(
    matrix: Matrix, ffmpegs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, words: str
) -> None:
    monkeypatch.setenv("NVENC_FAULT", fault)
    found = ask(matrix, tmp_path, ffmpegs["5"], ffmpeg_smoke.nvenc)
    assert found.status == "fail"
    assert found.reason == words


@pytest.mark.parametrize("major", ["5", "9"])
@pytest.mark.parametrize(
    ("size", "options", "key", "words"),
    [
        (
            "320x240",
            "-pix_fmt p010le -c:v h264_nvenc",
            "format_unsupported",
            "rejects the input: 10 bit encode not supported",
        ),
        (
            "320x240",
            "-pix_fmt yuv444p -c:v h264_nvenc",
            "format_unsupported",
            "rejects the input: YUV444P not supported",
        ),
        ("4800x128", "-pix_fmt yuv420p -c:v hevc_nvenc", "too_large", ": width 4800 exceeds 4096"),
        ("320x240", "-pix_fmt yuv420p -c:v h264_nvenc -gpu 3", "bad_gpu_index", "1 GPU visible"),
        (
            "320x240",
            "-pix_fmt yuv420p -c:v av1_nvenc",
            "codec_unsupported",
            "does not support this codec; it supports h264, hevc",
        ),
    ],
)
def test_what_this_encoder_cannot_do_is_told_apart(
    matrix: Matrix, ffmpegs: dict[str, str], major: str, size: str, options: str, key: str, words: str
) -> None:
    program = identify(Location(path=ffmpegs[major], origin="test"), RUN)
    source = (
        "-hide_banner",
        "-f",
        "lavfi",
        "-i",
        f"testsrc2=size={size}:duration=0.1",
        *options.split(),
        "-f",
        "null",
        "-",
    )
    end = RUN.run((program.path, *source), timeout=300)
    told = diagnose(matrix, end.err, end.code, Setup(chip=chip_of(matrix, T4), driver="610.43.02", about=program.about))
    assert end.code
    if major == "5" and "av1" in options:
        assert told.cause == "av1_nvenc was not compiled into this FFmpeg"
    else:
        assert (told.key, words in told.cause) == (key, True), (told, end.err)


def test_an_encoder_that_hangs_is_ended(
    ffmpegs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVENC_FAULT", "hang:5")
    program = describe(Location(path=ffmpegs["5"], origin="test"), RUN)
    task = Task(program=program, clip=media.write_clip(tmp_path), runner=RUN, env={}, limit_s=2)
    end = transcode(task, choose_way(program), "h264_nvenc", tmp_path / "made.mp4")
    assert (end.code, end.error) == (None, "no answer within 2 s")


def test_the_session_that_is_one_too_many(
    matrix: Matrix, ffmpegs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in counts sessions over all processes, as a driver does; two are open, and two are allowed."""
    monkeypatch.setenv("NVENC_SESSIONS", str(tmp_path / "sessions"))
    monkeypatch.setenv("NVENC_CAP", "2")
    (tmp_path / "sessions").write_text("2")
    found = ask(matrix, tmp_path, ffmpegs["9"], ffmpeg_smoke.nvenc)
    assert (found.status, "the limit of encode sessions is reached" in found.reason) == ("fail", True), found.reason


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("pixel", "the output of -hwaccel cuda differs from the software decoder's: different pixels"),
        ("refuse", "decoding with -hwaccel cuda: FFmpeg stopped: "),
    ],
)
def test_what_a_decoder_does_wrong_is_found_out(
    matrix: Matrix, ffmpegs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, words: str
) -> None:
    monkeypatch.setenv("NVDEC_FAULT", fault)
    found = ask(matrix, tmp_path, ffmpegs["5"], ffmpeg_smoke.nvdec)
    assert found.status == "fail"
    assert found.reason.startswith(words)


def test_a_frame_late_is_another_picture(ffmpegs: dict[str, str], tmp_path: Path) -> None:
    """The right number of frames of the right size, each where its neighbour belongs: the hardest fault to see."""
    program = describe(Location(path=ffmpegs["5"], origin="test"), RUN)
    task = Task(program=program, clip=media.write_clip(tmp_path), runner=RUN, env={})
    made = tmp_path / "late.mp4"
    late = "tpad=start=1:start_mode=clone,trim=end_frame=48,scale=480:270"
    words = (program.path, "-v", "error", "-i", str(task.clip), "-vf", late, "-c:v", "libx264", str(made))
    assert RUN.run(words).code == 0
    found = judge_output(task, "h264", choose_way(program), made, tmp_path)
    assert found.measurements["h264_frames"].value == media.CLIP_FRAMES
    assert "its image differs from the clip's" in found.faults[0]


@pytest.mark.parametrize("key", ["crop", "one_to_n", "encode", "multi_decode", "hq_slow"])
def test_a_command_of_the_guide_makes_its_streams(
    matrix: Matrix, ffmpegs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """Those that differ most from each other; the slow tier runs them all."""
    monkeypatch.setenv("NVENC_FAULT", "grey")  # small files: what is in the picture is not looked at here
    found = ask(matrix, tmp_path, ffmpegs["5"], partial(guide, key))
    assert found.status == "pass", found
    assert {name for name in found.measurements if name.endswith("_frames")}
    if key == "hq_slow":
        # What this release loses frames without: its encoder keeps the surfaces that the decoder needs.
        note = "this release requires -threads 1 -extra_hw_frames 24 before -i"
        assert found.detail.endswith(f" ({note})")


def test_sessions_at_once_are_measured(matrix: Matrix, ffmpegs: dict[str, str]) -> None:
    """The figures of a stand-in say nothing; that there is one for each engine and number of sessions does."""
    context = Context(host=HOST, matrix=matrix, runner=RUN, given={"ffmpeg": ffmpegs["5"]})
    found = bench.bench(context, bench.Wanted(sessions=(1, 2), seconds=2))
    assert [(row["work"], row["engine"], row["sessions"], row["frames"]) for row in found.rows] == [
        (work, engine, sessions, 48 * sessions)
        for work, engine in (
            ("decode h264", "NVDEC"),
            ("encode h264", "NVENC"),
            ("transcode h264 to h264", "both"),
            ("encode hevc", "NVENC"),
            ("transcode h264 to hevc", "both"),
        )
        for sessions in (1, 2)
    ]
    for row in found.rows:
        assert float(row["fps"] or 0) == pytest.approx(float(row["frames"] or 0) / float(row["seconds"] or 1), rel=0.01)
    assert found.notes == ()
    assert found.settings["CUDA_DEVICE_MAX_CONNECTIONS"] == "2"
    assert found.settings["CUDA_VISIBLE_DEVICES"] == "0"


def test_sessions_beyond_the_limit_are_no_figures(
    matrix: Matrix, ffmpegs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is open already, as another program's would be, and one is allowed: no encoder starts, the decoders do."""
    monkeypatch.setenv("NVENC_SESSIONS", str(tmp_path / "sessions"))
    monkeypatch.setenv("NVENC_CAP", "1")
    (tmp_path / "sessions").write_text("1")
    context = Context(host=HOST, matrix=matrix, runner=RUN, given={"ffmpeg": ffmpegs["5"]})
    found = bench.bench(context, bench.Wanted(sessions=(2,), seconds=2))
    assert [(row["work"], row["sessions"], row["frames"]) for row in found.rows] == [("decode h264", 2, 96)]
    assert [note.partition(" with 2 sessions: ")[0] for note in found.notes] == [
        "encode h264", "transcode h264 to h264", "encode hevc", "transcode h264 to hevc",
    ]  # fmt: skip
    assert all("the limit of encode sessions is reached" in note for note in found.notes)


@pytest.mark.slow
@pytest.mark.parametrize("major", ["5", "9"])
def test_every_command_of_the_guide_makes_its_streams(
    check: Check, ffmpegs: dict[str, str], matrix: Matrix, major: str
) -> None:
    path = ffmpegs[major]
    found = check("ffmpeg", "full", HOST, ffmpeg=path)
    keys = {one.key for one in guide_commands(matrix, describe(Location(path=path, origin="test"), RUN))}
    assert {f"ffmpeg.guide-{key.replace('_', '-').lower()}" for key in keys} == {
        name for name in found if name.startswith("ffmpeg.guide-")
    }
    assert {one.status for one in found.values()} == {"pass"}, found
    assert "output.mp4 1856x1048" in found["ffmpeg.guide-crop"].detail
    assert "scale_cuda instead of scale_npp, which is not compiled in" in found["ffmpeg.guide-scale-npp"].detail
    assert ("only with -threads 1" in found["ffmpeg.guide-lookahead"].detail) == (major == "5")
