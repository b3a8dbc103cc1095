"""Measurements: their arithmetic, their document, and refusals where there is nothing to measure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpustack.bench.ffmpeg import lay_long_clip, works
from gpustack.bench.table import Bench, as_text
from gpustack.bench.tensorrt import percentile, precisions
from gpustack.system.run import LocalRunner
from gpustack.verify.ffmpeg import media
from gpustack.verify.ffmpeg.programs import Place, Program, describe


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
    able = Program(place=Place(path="/f", origin=""), accelerations=frozenset({"cuda"}))
    assert [one.name for one in works(able, ())] == ["decode h264"]
    assert [one.name for one in works(able, ("h264",))] == ["decode h264", "encode h264", "transcode h264 to h264"]


def test_the_long_clip_holds_every_frame_that_is_counted(tmp_path: Path) -> None:
    clip, frames = lay_long_clip(tmp_path, 17)
    assert frames == 9 * media.CLIP_FRAMES
    ffmpeg = describe(Place(path="/usr/bin/ffmpeg", origin="distribution"), LocalRunner())
    raw = tmp_path / "raw.yuv"
    assert media.decode(ffmpeg, clip, raw, LocalRunner(), scale=(64, 36)).code == 0
    assert media.frames_in(raw, (64, 36)) == frames


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("disk",), 2, "nothing called 'disk' is measured"),
        (("ffmpeg", "--sessions", "0"), 2, "is no list of numbers"),
        (("tensorrt", "--batch", "a"), 2, "is no list of numbers"),
        (("ffmpeg",), 4, "there is no GPU here"),
        (("tensorrt",), 4, "there is no GPU here"),
    ],
)
def test_what_cannot_be_measured_is_refused(words: tuple[str, ...], code: int, told: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "gpustack", "bench", *words], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (code, "")
    assert told in ended.stderr


def test_what_was_measured_on_an_h200_is_kept() -> None:
    """`bench ffmpeg --sessions 1,4,8 --seconds 60` and `bench gpu` on one H200, 2026-11-21."""
    folder = Path(__file__).parent.parent / "fixtures" / "h200"
    told = (folder / "bench-ffmpeg.txt").read_text()
    assert "note: H200 has no NVENC" in told
    assert "decode h264  8" in told
    assert "matrix-rate-fp16" in (folder / "bench-gpu.txt").read_text()
    assert json.loads((folder / "ffmpeg-9.0.2.json").read_text())["checks"]
