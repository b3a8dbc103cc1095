"""A real FFmpeg built from Debian's source package against Debian's nv-codec-headers, minimal, and looked into."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.media.conftest import H200, Check, host_with

from gpustack.system.run import LocalRunner
from gpustack.verify.ffmpeg.programs import Location, describe

CONFIGURE = (
    "--disable-x86asm", "--disable-everything", "--disable-autodetect", "--disable-doc", "--disable-debug",
    "--disable-ffplay", "--disable-ffprobe", "--enable-ffnvcodec", "--enable-nvenc", "--enable-cuvid", "--enable-nvdec",
    "--enable-encoder=h264_nvenc,hevc_nvenc,rawvideo,wrapped_avframe",
    "--enable-decoder=h264,hevc,rawvideo,wrapped_avframe,h264_cuvid,hevc_cuvid",
    "--enable-hwaccel=h264_nvdec,hevc_nvdec", "--enable-parser=h264,hevc", "--enable-demuxer=mov,h264,hevc,rawvideo",
    "--enable-bsf=h264_mp4toannexb,hevc_mp4toannexb,extract_extradata,null", "--enable-muxer=mp4,null,rawvideo,h264",
    "--enable-protocol=file,pipe", "--enable-indev=lavfi",
    "--enable-filter=testsrc2,color,scale,format,null,split,hwupload,hwdownload,hwupload_cuda",
)  # fmt: skip


def run(folder: Path, *words: str, **env: str) -> str:
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=1500
    )
    assert done.returncode == 0, (words, done.stderr[-2000:])
    return done.stdout


def source_lists(folder: Path) -> tuple[str, ...]:
    """Options by which apt reads its own lists of sources, without a change to the machine's."""
    parts = folder / "parts"
    parts.mkdir()
    (folder / "lists" / "partial").mkdir(parents=True)
    for path in Path("/etc/apt/sources.list.d").glob("*.sources"):
        text = path.read_text(encoding="utf-8")
        if "Suites: bookworm" in text:
            (parts / path.name).write_text(re.sub(r"(?m)^Types: .*", "Types: deb-src", text), encoding="utf-8")
    plain = Path("/etc/apt/sources.list")
    if plain.is_file():
        lines = [line for line in plain.read_text(encoding="utf-8").splitlines() if line.startswith("deb ")]
        (parts / "plain.list").write_text("".join(f"deb-src {line[4:]}\n" for line in lines), encoding="utf-8")
    return (
        "-oDir::Etc::sourcelist=/dev/null",
        f"-oDir::Etc::sourceparts={parts}",
        f"-oDir::State::Lists={folder / 'lists'}",
    )


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with Debian's source of FFmpeg, as its authors released it, and with Debian's nv-codec-headers."""
    folder = tmp_path_factory.mktemp("source")
    options = source_lists(folder)
    run(folder, "apt-get", *options, "update", "-q")
    run(folder, "apt-get", *options, "source", "--download-only", "-q", "ffmpeg")
    run(folder, "apt-get", "download", "-q", "libffmpeg-nvenc-dev")
    return folder


def unpacked(packed: Path, folder: Path) -> tuple[Path, Path]:
    """The tree of FFmpeg, and the description of the headers for pkg-config."""
    tree, headers = folder / "ffmpeg", folder / "headers"
    tree.mkdir()
    archive = next(packed.glob("ffmpeg_*.orig.tar.xz"))
    run(folder, "tar", "xf", str(archive), "-C", str(tree), "--strip-components=1")
    run(folder, "dpkg", "-x", str(next(packed.glob("libffmpeg-nvenc-dev_*.deb"))), str(headers))
    description = next(headers.rglob("ffnvcodec.pc"))
    text = description.read_text(encoding="utf-8")
    description.write_text(re.sub(r"(?m)^prefix=.*", f"prefix={headers / 'usr'}", text), encoding="utf-8")
    return tree, description


@pytest.mark.slow
def test_the_words_of_a_plan_configure_a_real_tree(packed: Path, tmp_path: Path) -> None:
    """The archive that the facts pin is the very one that Debian has; configure takes every word of the plan for it."""
    archive = next(packed.glob("ffmpeg_*.orig.tar.xz"))
    number = archive.name.partition("_")[2].partition(".orig")[0]
    program = (sys.executable, "-m", "gpustack")
    described = ("--os", "debian12", "--gpu", "Tesla T4", "--driver", "580.159.04", "--method", "ffmpeg=source")
    run(tmp_path, *program, "plan", f"ffmpeg=={number}", *described, "--out", str(tmp_path / "plan.json"))
    steps = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))["steps"]
    pins = {one["sha256"] for step in steps for one in step["artifacts"] if one["sha256"]}
    assert hashlib.sha256(archive.read_bytes()).hexdigest() in pins

    (command,) = (words for step in steps for words in step["commands"] if any("./configure" in word for word in words))
    tree, description = unpacked(packed, tmp_path)
    words = command[command.index(f"/usr/local/src/ffmpeg-{number}") + 1 :]
    assert f"--prefix=/usr/local/ffmpeg-{number}" in words
    run(tree, "./configure", *words, "--disable-x86asm", PKG_CONFIG_PATH=str(description.parent))
    found = set((tree / "ffbuild" / "config.mak").read_text(encoding="utf-8").splitlines())
    assert {"CONFIG_H264_NVENC_ENCODER=yes", "CONFIG_HEVC_NVENC_ENCODER=yes", "CONFIG_H264_CUVID_DECODER=yes"} <= found
    assert {"CONFIG_H264_NVDEC_HWACCEL=yes", "CONFIG_HWUPLOAD_CUDA_FILTER=yes"} <= found


@pytest.mark.slow
def test_a_minimal_build_holds_nvenc_and_nvdec(packed: Path, tmp_path: Path, check: Check) -> None:
    tree, description = unpacked(packed, tmp_path)
    api = re.search(r"(?m)^Version: (\d+\.\d+)", description.read_text(encoding="utf-8"))
    assert api is not None
    prefix = tmp_path / "prefix"
    run(tree, "./configure", f"--prefix={prefix}", *CONFIGURE, PKG_CONFIG_PATH=str(description.parent))
    run(tree, "make", f"-j{os.cpu_count()}")
    run(tree, "make", "install")

    built = describe(Location(path=str(prefix / "bin" / "ffmpeg"), origin="own build", on_path=True), LocalRunner())
    assert {name for name in built.encoders if "nvenc" in name} == {"h264_nvenc", "hevc_nvenc"}
    assert {name for name in built.decoders if "cuvid" in name} == {"h264_cuvid", "hevc_cuvid"}
    assert "cuda" in built.accelerations
    assert built.api == api[1]
    found = check("ffmpeg", "smoke", host_with(H200), ffmpeg=built.path)
    assert found["ffmpeg.compiled"].status == "pass"
    assert "libcuda.so.1 was not found" in found["ffmpeg.nvdec"].reason
