"""Real FFmpegs of four generations: what they can do, their errors without a driver, and with a stand-in for one."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from tests.media.conftest import H200, L4, Check, host_with

from gpustack.matrix.index import Matrix
from gpustack.model.host import Host, Installed, OperatingSystem
from gpustack.system.run import Finished, LocalRunner
from gpustack.verify.declare import Context
from gpustack.verify.ffmpeg import media
from gpustack.verify.ffmpeg.causes import Setup
from gpustack.verify.ffmpeg.diagnosis import diagnose
from gpustack.verify.ffmpeg.engines import chip_of
from gpustack.verify.ffmpeg.full import write_inputs
from gpustack.verify.ffmpeg.guide import GuideCommand, guide_commands, missing_parts
from gpustack.verify.ffmpeg.programs import Location, Program, describe, find_places
from gpustack.verify.ffmpeg.transcode import Task, Way, judge_output, transcode
from gpustack.verify.frame.runner import run_checks

RUN = LocalRunner()
ENCODE = ("-hide_banner", "-f", "lavfi", "-i", "testsrc2=size=640x360:rate=30:duration=1", "-vf", "format=yuv420p")


def program(path: str) -> Program:
    return describe(Location(path=path, origin="test", on_path=True), RUN)


def test_versions_lists_and_apis(ffmpegs: dict[str, str]) -> None:
    found = {major: program(path) for major, path in ffmpegs.items()}
    assert {major: one.about.major for major, one in found.items()} == {"4": 4, "5": 5, "7": 7, "9": 9}
    assert not found["4"].has_nvenc
    assert not found["7"].has_nvenc
    assert {"h264_nvenc", "hevc_nvenc"} <= found["5"].encoders
    assert "av1_nvenc" in found["9"].encoders
    assert "scale_cuda" in found["5"].filters & found["9"].filters
    assert "cuda" in found["5"].accelerations & found["9"].accelerations
    # Read from machine code, and what each program asks a driver for (see the stand-in below).
    assert (found["5"].api, found["9"].api, found["7"].api) == ("11.1", "13.1", "")


def test_every_ffmpeg_is_found_once_and_path_comes_first(tmp_path: Path) -> None:
    for place in ("usr/bin", "opt/ffmpeg-8/bin", "usr/lib/python3/dist-packages/imageio_ffmpeg/binaries"):
        (tmp_path / place).mkdir(parents=True)
    for place in (
        "usr/bin/ffmpeg",
        "opt/ffmpeg-8/bin/ffmpeg",
        "usr/lib/python3/dist-packages/imageio_ffmpeg/binaries/ffmpeg-x",
    ):
        (tmp_path / place).write_text("#!/bin/sh\n")
        (tmp_path / place).chmod(0o755)
    (tmp_path / "usr/local/bin").mkdir(parents=True)
    (tmp_path / "usr/local/bin/ffmpeg").symlink_to(tmp_path / "opt/ffmpeg-8/bin/ffmpeg")
    found = find_places("/usr/local/bin:/usr/bin", root=tmp_path)
    assert [(one.path.removeprefix(str(tmp_path)), one.origin, one.on_path) for one in found] == [
        ("/usr/local/bin/ffmpeg", "own build", True),
        ("/usr/bin/ffmpeg", "distribution", True),
        ("/usr/lib/python3/dist-packages/imageio_ffmpeg/binaries/ffmpeg-x", "wheel imageio-ffmpeg", False),
    ]


@pytest.mark.parametrize(
    ("path", "beside", "origin"),
    [
        ("usr/lib/jellyfin-ffmpeg/ffmpeg", "", "Jellyfin"),
        ("home/linuxbrew/.linuxbrew/bin/ffmpeg", "", "Homebrew"),
        ("nix/var/nix/profiles/default/bin/ffmpeg", "", "Nix"),
        ("home/ada/miniforge3/bin/ffmpeg", "home/ada/miniforge3/conda-meta", "conda"),
        ("root/miniconda3/envs/video/bin/ffmpeg", "root/miniconda3/envs/video/conda-meta", "conda"),
        ("opt/conda/bin/ffmpeg", "opt/conda/conda-meta", "conda"),
        ("opt/conda/envs/video/bin/ffmpeg", "opt/conda/envs/video/conda-meta", "conda"),
        ("usr/local/ffmpeg-9.0.2/bin/ffmpeg", "", "own build"),
    ],
)
def test_an_ffmpeg_on_no_path_is_found_with_its_origin(tmp_path: Path, path: str, beside: str, origin: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("#!/bin/sh\n")
    (tmp_path / path).chmod(0o755)
    if beside:
        (tmp_path / beside).mkdir(parents=True)
    assert find_places("/usr/bin", root=tmp_path) == (Location(path=str(tmp_path / path), origin=origin),)


def test_a_snap_is_a_link_to_what_starts_snaps(tmp_path: Path) -> None:
    for place in ("usr/bin", "snap/bin"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "usr/bin/snap").write_text("#!/bin/sh\n")
    (tmp_path / "usr/bin/snap").chmod(0o755)
    (tmp_path / "snap/bin/ffmpeg").symlink_to(tmp_path / "usr/bin/snap")
    for search in ("/usr/bin", "/snap/bin"):
        (found,) = find_places(search, root=tmp_path)
        assert (found.origin, found.on_path) == ("snap", search == "/snap/bin")


def test_what_a_package_tells_of_is_said_to_be_not_run(matrix: Matrix) -> None:
    """Without a GPU the distribution's FFmpeg is told by its package: that it works is not claimed."""
    host = Host(
        os=OperatingSystem(id="debian", version_id="12", family="apt"),
        arch="x86_64",
        installed={"ffmpeg": Installed(version="5.1.9", method="distro", path="/usr/bin/ffmpeg")},
    )
    context = Context(host=host, matrix=matrix, runner=RUN, given={"path": "/usr/bin"})
    (found,) = (one for one in run_checks((), "quick", context) if one.id == "ffmpeg.found")
    assert found.status == "pass"
    assert found.detail.startswith("/usr/bin/ffmpeg (5.1.9, distribution, not run); not tested without an NVIDIA GPU")


@pytest.mark.parametrize(
    ("major", "key"), [("4", "not_compiled"), ("5", "no_libcuda"), ("7", "not_compiled"), ("9", "no_libcuda")]
)
def test_without_a_driver_each_generation_is_understood(
    ffmpegs: dict[str, str], matrix: Matrix, major: str, key: str
) -> None:
    end = RUN.run((ffmpegs[major], *ENCODE, "-c:v", "h264_nvenc", "-f", "null", "-"), timeout=300)
    told = diagnose(matrix, end.err, end.code, Setup())
    assert end.code
    assert told.key == key
    assert "(unknown)" not in told.cause


@pytest.mark.parametrize("major", ["5", "9"])
def test_every_command_of_the_guide_is_parsed_up_to_the_missing_driver(
    ffmpegs: dict[str, str], matrix: Matrix, major: str, tmp_path: Path
) -> None:
    """As far as a machine without a driver goes: options, filters and inputs are taken, then libcuda is missed."""
    tested = program(ffmpegs[major])
    commands = guide_commands(matrix, tested)
    assert len(commands) == 20
    for command in commands:
        assert missing_parts(command, tested) == ()
        end = told_of(tested, command, tmp_path)
        told = diagnose(matrix, end.err, end.code, Setup(about=tested.about))
        assert end.code, command.key
        assert told.key in {"no_libcuda", "no_libnvcuvid"}, (command.key, end.err)


def told_of(tested: Program, command: GuideCommand, shared: Path) -> Finished:
    """Run a command of the guide on small inputs, which are made once."""
    folder = shared / command.key
    folder.mkdir()
    for name in command.takes:
        if not (shared / name).exists():
            encoder = "-c:v libx264 -preset ultrafast"
            kind = "-f rawvideo" if name.endswith(".yuv") else f"{encoder} -f h264" if name.endswith("264") else encoder
            words = f"-y -f lavfi -i color=size=1920x1080:rate=30:duration=0.1 -pix_fmt yuv420p {kind}".split()
            assert RUN.run((tested.path, *words, str(shared / name)), timeout=300).code == 0
        (folder / name).symlink_to(shared / name)
    return RUN.run((tested.path, "-hide_banner", *command.arguments), timeout=60, cwd=folder)


@pytest.mark.parametrize("major", ["4", "7"])
def test_every_command_of_the_guide_stops_at_what_a_plain_build_lacks(
    ffmpegs: dict[str, str], matrix: Matrix, major: str, tmp_path: Path
) -> None:
    """FFmpeg 4.2 and 7.0 without NVIDIA code: nothing in a command is told as wrong but what was not compiled in."""
    tested = program(ffmpegs[major])
    for command in guide_commands(matrix, tested):
        assert missing_parts(command, tested) or command.key == "multi_decode"
        end = told_of(tested, command, tmp_path)
        told = diagnose(matrix, end.err, end.code, Setup(about=tested.about))
        assert (end.code != 0, told.key) == (True, "not_compiled"), (command.key, end.err)
        assert "gpustack install ffmpeg" in told.fix


def test_the_smoke_transcode_judges_what_software_made(ffmpegs: dict[str, str], tmp_path: Path) -> None:
    """The judge is tried on real files; libx264 stands where NVENC would, as no encoder chip is here."""
    tested = program(ffmpegs["5"])
    task = Task(program=tested, clip=media.write_clip(tmp_path), runner=RUN, env={})
    way = Way(name="software", before=(), filter="scale=480:270:flags=bilinear", size=(480, 270))
    made = tmp_path / "made.mp4"
    assert transcode(task, way, "libx264", made).code == 0
    good = judge_output(task, "h264", way, made, tmp_path)
    assert good.faults == ()
    assert good.measurements["h264_frames"].value == media.CLIP_FRAMES
    assert float(good.measurements["h264_psnr"].value) > 30


def test_likeness_of_known_differences(tmp_path: Path) -> None:
    one, other = tmp_path / "a", tmp_path / "b"
    one.write_bytes(bytes(16 * 16 * 3 // 2 * 2))
    other.write_bytes((b"\x0a" * 256 + bytes(128)) * 2)
    assert media.compare_frames(one, one, (16, 16)) == media.Likeness(psnr=math.inf, ssim=1.0)
    far = media.compare_frames(one, other, (16, 16))
    # Ten of brightness everywhere, nothing of colour, which is a third of the bytes; flat blocks differ in brightness only.
    assert far.psnr == pytest.approx(10 * math.log10(255**2 / (100 * 2 / 3)), rel=1e-2)
    assert far.ssim == pytest.approx((0.01 * 255) ** 2 / (100 + (0.01 * 255) ** 2))
    with pytest.raises(ValueError, match="no complete frame"):
        media.compare_frames(one, tmp_path / "a", (64, 64))


@pytest.mark.parametrize("major", ["5", "9"])
@pytest.mark.parametrize(
    ("says", "words"),
    [
        ({"NVENC_STATUS": "2"}, "the driver reports no encoder"),
        ({"NVENC_STATUS": "1"}, "the driver reports no encoder"),
        ({"NVENC_STATUS": "21"}, "the limit of encode sessions is reached"),
        ({"NVENC_STATUS": "10"}, "the memory of L4 is full"),
        ({"NVENC_STATUS": "15"}, "does not support the nv-codec-headers"),
        ({"CUDA_INIT": "100"}, "the driver's library found no GPU"),
        ({"CUDA_DEVICES": "0"}, "the driver's library found no GPU"),
        ({"CUDA_CONTEXT": "2"}, "the memory of L4 is full"),
        ({"NVENC_API": "11.0"}, "but driver 580.159.04 supports only NVENC API 11.0"),
    ],
)
def test_each_failure_of_nvenc_is_told_apart(
    matrix: Matrix,
    ffmpegs: dict[str, str],
    driver: Path,
    monkeypatch: pytest.MonkeyPatch,
    major: str,
    says: dict[str, str],
    words: str,
) -> None:
    """Real FFmpegs against a stand-in for the driver: what it refuses is chosen, what FFmpeg says of it is real."""
    for name, value in {"LD_LIBRARY_PATH": str(driver), "NVENC_API": "13.1", **says}.items():
        monkeypatch.setenv(name, value)
    tested = program(ffmpegs[major])
    end = RUN.run((tested.path, *ENCODE, "-c:v", "h264_nvenc", "-f", "null", "-"), timeout=300)
    scene = Setup(chip=chip_of(matrix, L4), driver="580.159.04", about=tested.about)
    told = diagnose(matrix, end.err, end.code, scene)
    assert words in told.cause, end.err


def test_verify_on_a_chip_without_encoder(
    check: Check, ffmpegs: dict[str, str], driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
    found = check("ffmpeg", "smoke", host_with(H200), ffmpeg=ffmpegs["5"])
    assert (found["ffmpeg.nvenc"].status, found["ffmpeg.nvenc"].reason) == (
        "skip",
        "H200 has no NVENC (no hardware encoder)",
    )
    assert found["ffmpeg.nvenc"].detail == "h264_nvenc anyway: H200 has no NVENC (no hardware encoder)"
    # The stand-in has no decoder library, which is told as what it is.
    assert found["ffmpeg.nvdec"].status == "fail"
    assert "libnvcuvid.so.1" in found["ffmpeg.nvdec"].reason
    assert found["ffmpeg.driver"].detail == "NVENC API 11.1 requires driver 470.57.02; this host has driver 580.159.04"


def test_verify_says_which_driver_the_headers_need(check: Check, ffmpegs: dict[str, str]) -> None:
    found = check("ffmpeg", "quick", host_with(L4), ffmpeg=ffmpegs["9"])["ffmpeg.driver"]
    assert (found.status, found.expected, found.actual) == ("fail", "driver 610.0 or newer", "driver 580.159.04")
    assert "gpustack install 'driver>=610.0'" in found.fix
    fine = check("ffmpeg", "quick", host_with(L4, driver="610.43.02"), ffmpeg=ffmpegs["9"])["ffmpeg.driver"]
    assert fine.status == "pass"


def test_a_program_may_be_named_by_a_path_that_is_not_whole(
    check: Check, ffmpegs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks run in folders of their own."""
    (tmp_path / "mine").symlink_to(ffmpegs["5"])
    monkeypatch.chdir(tmp_path)
    found = check("ffmpeg", "smoke", host_with(H200), ffmpeg="mine")
    assert found["ffmpeg.found"].detail.startswith(f"under test: {tmp_path}/mine (5.1")
    assert "libcuda.so.1 was not found" in found["ffmpeg.nvdec"].reason


def test_a_build_without_nvidia_code_fails_and_names_the_cure(check: Check, ffmpegs: dict[str, str]) -> None:
    found = check("ffmpeg", "quick", host_with(L4), ffmpeg=ffmpegs["7"])["ffmpeg.compiled"]
    assert found.status == "fail"
    assert "was built without NVENC and NVDEC" in found.reason
    assert found.fix == "`gpustack install ffmpeg`"


def test_a_broken_program_is_named(check: Check, tmp_path: Path) -> None:
    broken = tmp_path / "ffmpeg"
    broken.write_text("#!/bin/sh\necho 'error while loading shared libraries: libx' >&2\nexit 127\n")
    broken.chmod(0o755)
    found = check("ffmpeg", "quick", host_with(L4), ffmpeg=str(broken))["ffmpeg.found"]
    assert found.status == "fail"
    assert "error while loading shared libraries: libx" in found.reason


def test_inputs_are_made_by_the_tested_program(ffmpegs: dict[str, str], matrix: Matrix, tmp_path: Path) -> None:
    tested = program(ffmpegs["9"])
    command = next(one for one in guide_commands(matrix, tested) if one.key == "transcode_1to1")
    assert write_inputs(tested, command, tmp_path, RUN) is None
    found = media.inspect(tested.path, tmp_path / "input.mp4", RUN)
    assert (found.codec, found.size, found.audio) == ("h264", (1920, 1080), "aac")


def test_what_was_seen_on_an_h200_and_an_h100_is_kept() -> None:
    """Reports of `verify ffmpeg --level full`: NVDEC bit-identical through two generations, NVENC skipped."""
    folder = Path(__file__).parent.parent / "fixtures"
    for name in ("h200/ffmpeg-9.0.2", "h200/ffmpeg-5.1.9", "h100/ffmpeg-9.0.2"):
        checks = {one["id"]: one for one in json.loads((folder / f"{name}.json").read_text())["checks"]}
        assert checks["ffmpeg.nvdec"]["status"] == "pass"
        assert "bit-exact with software" in checks["ffmpeg.nvdec"]["detail"]
        assert checks["ffmpeg.nvenc"]["status"] == "skip"
