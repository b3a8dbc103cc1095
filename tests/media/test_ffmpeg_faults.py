"""What is said of FFmpegs that run and do it wrong, or can do only a part: every sentence whole.

The files are made by a real FFmpeg, by software where NVENC would stand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.failures.conftest import Scripted, says
from tests.media.conftest import L4, T4, host_with

from gpustack.matrix.index import Matrix
from gpustack.model.host import Gpu
from gpustack.system.run import LocalRunner
from gpustack.verify.declare import Context
from gpustack.verify.ffmpeg import full as ffmpeg_full
from gpustack.verify.ffmpeg import media
from gpustack.verify.ffmpeg import quick as ffmpeg
from gpustack.verify.ffmpeg import smoke as ffmpeg_smoke
from gpustack.verify.ffmpeg.guide import guide_commands
from gpustack.verify.ffmpeg.programs import Location, Program, describe
from gpustack.verify.ffmpeg.transcode import Task, Way, choose_way, judge_output, transcode

RUN = LocalRunner()
WAY = Way(name="software", before=(), filter="scale=480:270:flags=bilinear", size=(480, 270))
X264 = ("-c:v", "libx264", "-preset", "ultrafast")
PLACE = Location(path="/opt/ffmpeg/bin/ffmpeg", origin="own build", on_path=True)
Turned = Callable[..., Path]


@pytest.fixture(scope="module")
def task(ffmpegs: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Task:
    folder = tmp_path_factory.mktemp("clip")
    program = describe(Location(path=ffmpegs["5"], origin="test"), RUN)
    return Task(program=program, clip=media.write_clip(folder), runner=RUN, env={})


@pytest.fixture(scope="module")
def made(task: Task) -> Path:
    """What is to be made: the clip, scaled and encoded."""
    path = task.clip.parent / "made.mp4"
    assert transcode(task, WAY, "libx264", path).code == 0
    return path


@pytest.fixture
def turned(task: Task, made: Path, tmp_path: Path) -> Turned:
    """The right output turned into another by FFmpeg."""

    def turn(name: str, *options: str) -> Path:
        path = tmp_path / name
        assert RUN.run((task.program.path, "-y", "-i", str(made), *options, str(path)), timeout=300).code == 0
        return path

    return turn


def test_another_codec_or_size(task: Task, made: Path, tmp_path: Path) -> None:
    assert judge_output(task, "hevc", WAY, made, tmp_path).faults == ("the output's codec is h264 instead of hevc",)
    whole = msgspec.structs.replace(WAY, size=(640, 360))
    assert judge_output(task, "h264", whole, made, tmp_path).faults == ("its size is 480x270 instead of 640x360",)


@pytest.mark.parametrize(
    ("name", "options", "fault"),
    [
        ("short.mp4", ("-frames:v", "24", *X264), "its duration is 1 s instead of 2 s"),
        ("less.mp4", ("-frames:v", "47", *X264), "the output contains 47 frames instead of 48"),
        ("raw.h264", ("-c", "copy"), "its duration is unknown instead of 2 s"),
        (
            "sound.mp4",
            ("-f", "lavfi", "-i", "sine=duration=2", "-map", "1:a", "-c:a", "aac"),
            "the output contains no video stream",
        ),
        (
            "green.mp4",
            ("-vf", "lutyuv=y=0:u=0:v=0", *X264),
            "its image differs from the clip's: PSNR 5.1 dB and SSIM 0.001; required are at least 30 dB and 0.95",
        ),
    ],
)
def test_another_stream(
    task: Task, turned: Turned, tmp_path: Path, name: str, options: tuple[str, ...], fault: str
) -> None:
    assert judge_output(task, "h264", WAY, turned(name, *options), tmp_path).faults == (fault,)


def test_no_file_or_one_that_is_damaged(task: Task, turned: Turned, tmp_path: Path) -> None:
    assert judge_output(task, "h264", WAY, tmp_path / "nothing.mp4", tmp_path).faults == (
        "the output contains no video stream",
    )
    path = turned("damaged.mp4", "-movflags", "faststart", "-c", "copy")
    content = path.read_bytes()
    start = content.index(b"mdat") + 4
    path.write_bytes(content[:start] + bytes(len(content) - start))
    (fault,) = judge_output(task, "h264", WAY, path, tmp_path).faults
    size = fault.partition("(0 > ")[2].partition(")")[0]
    assert (
        fault == f"the output contains 0 frames instead of 48 (decoding stopped: Invalid NAL unit size (0 > {size}).)"
    )


def test_a_clip_that_went_away(task: Task, made: Path, tmp_path: Path) -> None:
    lost = msgspec.structs.replace(task, clip=tmp_path / "lost.h264")
    assert judge_output(lost, "h264", WAY, made, tmp_path).faults == (
        "the software decoder wrote nothing to compare with: no complete frame to compare",
    )


@pytest.mark.usefixtures("software_gpu")
def test_sound_that_is_lost(matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real FFmpeg that is told to leave out what it should copy."""
    monkeypatch.setenv("NVENC_FAULT", "grey")  # small files: what is in the picture is not looked at here
    deaf = tmp_path / "deaf-ffmpeg"
    deaf.write_text(
        f"#!{sys.executable} -IS\nimport os, sys\nwords = sys.argv[1:]\n"
        "if 'copy' in words:\n    words[words.index('copy') - 1 : words.index('copy') + 1] = ['-an']\n"
        "os.execv('/usr/bin/ffmpeg', ['ffmpeg', *words])\n"
    )
    deaf.chmod(0o755)
    context = Context(
        host=host_with(T4, driver="610.43.02"), matrix=matrix, runner=RUN, work=tmp_path, given={"ffmpeg": str(deaf)}
    )
    found = ffmpeg_full.guide("transcode_1to1", context)
    purpose = next(one.purpose for one in guide_commands(matrix, Program(place=PLACE)) if one.key == "transcode_1to1")
    assert (found.status, found.reason) == ("fail", f"{purpose}: output.mp4 has no audio")


@pytest.mark.parametrize(
    ("accelerations", "decoders", "filters", "name"),
    [
        ({"cuda"}, {"h264_cuvid"}, {"scale_cuda", "scale_npp"}, "decode, scale_cuda, encode"),
        ({"cuda"}, {"h264_cuvid"}, {"scale_npp"}, "decode, scale_npp, encode"),
        ({"cuda"}, {"h264_cuvid"}, set(), "decode and resize by h264_cuvid, encode"),
        (set(), {"h264_cuvid"}, {"scale_cuda"}, "decode and resize by h264_cuvid, encode"),
        ({"cuda"}, set(), set(), "decode, encode (no GPU scaler compiled in)"),
        (set(), set(), {"scale_cuda"}, "encode (NVDEC not compiled in)"),
    ],
)
def test_the_way_that_a_build_offers(accelerations: set[str], decoders: set[str], filters: set[str], name: str) -> None:
    program = Program(
        place=PLACE,
        accelerations=frozenset(accelerations),
        decoders=frozenset(decoders),
        filters=frozenset(filters),
    )
    assert choose_way(program).name == name


def test_what_a_build_lacks_is_told(matrix: Matrix) -> None:
    """A build passes with any one of the parts; those that are not there are named."""
    for parts, detail in (
        (
            {"encoders": {"h264_nvenc"}},
            "h264_nvenc; none; none; no cuvid decoder, no CUDA filter, no -hwaccel cuda",
        ),
        (
            {"decoders": {"h264_cuvid"}, "filters": {"scale_cuda"}, "accelerations": {"cuda"}},
            "none; h264_cuvid; scale_cuda; no NVENC encoder",
        ),
    ):
        program = Program(place=PLACE, **{name: frozenset(words) for name, words in parts.items()})
        context = Context(host=host_with(L4), matrix=matrix, runner=RUN)
        context.shared.once("ffmpeg programs", lambda program=program: (program,))
        found = ffmpeg.compiled(context)
        assert (found.status, found.detail) == ("pass", f"{PLACE.path}: {detail}")


RTX_3080 = Gpu(name="GeForce RTX 3080", pci_id="10de:2206", bus_id="0000:01:00.0", nvenc=1)
UNKNOWN = Gpu(name="GPU of tomorrow", pci_id="10de:ffff", bus_id="0000:01:00.0")


@pytest.mark.parametrize(
    ("gpu", "counted", "detail"),
    [
        (L4, "3\n", "L4: no limit on this board; 3 open now"),
        (
            RTX_3080,
            "",
            "GeForce RTX 3080: up to 8 sessions on the whole system; nvidia-smi does not report how many are open",
        ),
        (UNKNOWN, "0\n", "GPU of tomorrow: the limit of this board is unknown; 0 open now"),
    ],
)
def test_sessions_that_are_free(matrix: Matrix, gpu: Gpu, counted: str, detail: str) -> None:
    runner = Scripted({"nvidia-smi --query-gpu=encoder": says(counted)} if counted else {})
    context = Context(host=host_with(gpu), matrix=matrix, runner=runner)
    context.shared.once("ffmpeg programs", lambda: (Program(place=PLACE, encoders=frozenset({"h264_nvenc"})),))
    found = ffmpeg_smoke.sessions(context)
    assert (found.status, found.detail) == ("pass", detail)


def test_every_command_of_the_guide_has_a_check(matrix: Matrix) -> None:
    commands = guide_commands(matrix, Program(place=PLACE))
    assert sorted(one.key for one in commands) == sorted(ffmpeg_full._KEYS)
