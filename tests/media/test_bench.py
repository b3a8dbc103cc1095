"""Measurements: their arithmetic, their document, and refusals where there is nothing to measure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.media.conftest import L4, host_with

from gpustack.errors import UnsupportedError
from gpustack.matrix.index import Matrix
from gpustack.system.run import Finished, LocalRunner
from gpustack.verify.declare import Context
from gpustack.verify.ffmpeg import media
from gpustack.verify.ffmpeg.bench import (
    Clip,
    Wanted,
    environments,
    measure_sessions,
    possible_loads,
    write_long_clip,
)
from gpustack.verify.ffmpeg.programs import Location, Program, describe
from gpustack.verify.frame.bench_table import Bench, as_text
from gpustack.verify.tensorrt.bench import precisions
from gpustack.verify.tensorrt.child import percentile


def test_percentiles() -> None:
    values = [float(one) for one in range(1, 101)]
    assert [percentile(values, part) for part in (50, 90, 95, 99)] == [50, 90, 95, 99]
    assert percentile([3.0], 99) == 3.0


def test_precisions_by_what_the_release_offers() -> None:
    assert precisions("8.6.0") == ("fp32", "fp16")
    assert precisions("11.0.0") == ("fp32",)


def test_a_table_has_units_and_gaps() -> None:
    found = Bench(
        subject="x",
        settings={"gpu": "L4"},
        columns=("n", "t"),
        units={"t": "ms"},
        rows=({"n": 1, "t": 0.125}, {"n": 20}),
    )
    assert as_text(found).splitlines() == ["gpu: L4", "", "n   t (ms)", "1   0.125", "20  -"]


def test_loads_follow_what_the_program_and_the_chip_have() -> None:
    able = Program(place=Location(path="/f", origin=""), accelerations=frozenset({"cuda"}))
    assert [one.name for one in possible_loads(able, ())] == ["decode h264"]
    assert [one.name for one in possible_loads(able, ("h264",))] == [
        "decode h264",
        "encode h264",
        "transcode h264 to h264",
    ]
    assert [(one.name, one.outputs) for one in possible_loads(able, ("hevc",), (1, 4))][2:] == [
        ("transcode h264 to hevc", 1),
        ("transcode h264 to 4 x hevc", 4),
    ]


class Recording:
    """Stands for FFmpeg: keeps the command lines and variables of all sessions, and succeeds."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[str, ...], str]] = []

    def run(self, argv: tuple[str, ...], **how: Any) -> Finished:
        self.calls.append((argv, how["env"]["CUDA_VISIBLE_DEVICES"]))
        return Finished(argv=argv, code=0, seconds=0.5)


def test_sessions_with_several_outputs_on_all_gpus(matrix: Matrix, tmp_path: Path) -> None:
    recording = Recording()
    clock = iter((10.0, 12.0))
    context = Context(host=host_with(L4, L4), matrix=matrix, runner=recording, clock=lambda: next(clock))
    able = Program(place=Location(path="/f", origin=""), accelerations=frozenset({"cuda"}))
    work = possible_loads(able, ("hevc",), (3,))[-1]
    wanted = Wanted(sessions=(3,), seconds=2, all_gpus=True)
    clip = Clip(path=tmp_path / "x.h264", size=(640, 360), frames=48, rate=24)
    row = measure_sessions(context, able, work, clip, environments(context, 3, wanted))
    assert isinstance(row, dict)
    assert (row["frames"], row["sessions"], row["outputs"], row["fps"]) == (432, 3, 3, 216.0)
    assert row["start_s"] == 0.5
    assert sorted(device for _, device in recording.calls) == ["0", "0", "0", "0", "1", "1"]
    whole, start = recording.calls[0][0], recording.calls[-1][0]
    assert whole.count("-i") == start.count("-i") == 1
    assert (whole.count("hevc_nvenc"), start.count("hevc_nvenc")) == (3, 3)
    assert (whole.count("-frames:v"), start.count("-frames:v")) == (0, 3)


@pytest.mark.parametrize(
    ("seconds", "size", "wanted"),
    [(17, media.CLIP_SIZE, (9 * media.CLIP_FRAMES, media.CLIP_RATE)), (3.5, (320, 240), (120, 30))],
)
def test_the_long_clip_holds_every_frame_that_is_counted(
    tmp_path: Path, seconds: float, size: tuple[int, int], wanted: tuple[int, int]
) -> None:
    ffmpeg = describe(Location(path="/usr/bin/ffmpeg", origin="distribution"), LocalRunner())
    clip = write_long_clip(tmp_path, seconds, size, ffmpeg, LocalRunner())
    assert (clip.frames, clip.rate) == wanted
    raw = tmp_path / "raw.yuv"
    assert media.decode(ffmpeg, clip.path, raw, LocalRunner(), scale=(64, 36)).code == 0
    assert media.count_frames(raw, (64, 36)) == clip.frames
    assert media.inspect(ffmpeg.path, clip.path, LocalRunner()).size == size


def test_a_clip_of_another_size_takes_an_encoder(tmp_path: Path) -> None:
    unable = Program(place=Location(path="/f", origin=""))
    with pytest.raises(UnsupportedError, match="it has no software encoder"):
        write_long_clip(tmp_path, 17, (1280, 720), unable, LocalRunner())


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("disk",), 2, "unknown subject 'disk'"),
        (("ffmpeg", "--sessions", "0"), 2, "is not a list of numbers"),
        (("ffmpeg", "--size", "1080p"), 2, "is not a size"),
        (("tensorrt", "--batch", "a"), 2, "is not a list of numbers"),
        (("ffmpeg",), 4, "no NVIDIA GPU was found"),
        (("tensorrt",), 4, "no NVIDIA GPU was found"),
    ],
)
def test_what_cannot_be_measured_is_refused(words: tuple[str, ...], code: int, told: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "gpustack", "bench", *words], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (code, "")
    assert told in ended.stderr


def test_what_was_measured_on_an_h100_is_kept() -> None:
    """`bench ffmpeg --size 1920x1080 --seconds 120 --sessions 1,4,8,16` on one H100, 2026-11-21: its seven NVDEC."""
    folder = Path(__file__).parent.parent / "fixtures" / "h100"
    found = msgspec.json.decode((folder / "bench-ffmpeg-1080p.json").read_bytes(), type=Bench)
    rates = [(row["sessions"], row["frames"], float(row["fps"] or 0)) for row in found.rows]
    assert [(sessions, frames) for sessions, frames, _ in rates] == [(1, 3600), (4, 14400), (8, 28800), (16, 57600)]
    assert rates[0][2] < rates[1][2] < rates[2][2]
    assert "H100 80GB HBM3 has no NVENC" in found.notes[0]


def test_what_was_measured_on_an_h200_is_kept() -> None:
    """`bench ffmpeg --sessions 1,4,8 --seconds 60` and `bench gpu` on one H200, 2026-11-21."""
    folder = Path(__file__).parent.parent / "fixtures" / "h200"
    told = (folder / "bench-ffmpeg.txt").read_text()
    assert "note: H200 has no NVENC" in told
    assert "decode h264  8" in told
    assert "matrix-rate-fp16" in (folder / "bench-gpu.txt").read_text()
    assert json.loads((folder / "ffmpeg-9.0.2.json").read_text())["checks"]
