"""Clips to work on, and looking at what a run made: streams, frames, and how far the picture is from the original."""

from __future__ import annotations

import math
import re
from importlib.resources import files
from pathlib import Path

from msgspec import Struct

from gpustack.system.run import Finished, Runner

CLIP = "clip.h264"
CLIP_SIZE = (640, 360)
CLIP_FRAMES = 48
CLIP_RATE = 24
"""The clip that comes with gpustack: a moving test picture, H.264, so that decoding needs no encoder here."""

_VIDEO = re.compile(r"Stream #\d+:\d+.*?: Video: (\w+).*?[ ,](\d{2,5})x(\d{2,5})[ ,\n]")
_AUDIO = re.compile(r"Stream #\d+:\d+.*?: Audio: (\w+)")
_DURATION = re.compile(r"Duration: (\d+):(\d\d):(\d\d(?:\.\d+)?)")
_SAMPLED = 6


class Streams(Struct, frozen=True, kw_only=True):
    """What FFmpeg finds in a file. ``duration_s`` is None where the container does not tell."""

    codec: str = ""
    size: tuple[int, int] = (0, 0)
    duration_s: float | None = None
    audio: str = ""


def streams(text: str) -> Streams:
    """Read what ``ffmpeg -i FILE`` prints about the file."""
    video = _VIDEO.search(text)
    audio = _AUDIO.search(text)
    lasts = _DURATION.search(text)
    return Streams(
        codec=video[1] if video else "",
        size=(int(video[2]), int(video[3])) if video else (0, 0),
        duration_s=int(lasts[1]) * 3600 + int(lasts[2]) * 60 + float(lasts[3]) if lasts else None,
        audio=audio[1] if audio else "",
    )


def look(program: str, path: Path, runner: Runner) -> Streams:
    """The streams of the file at ``path``."""
    return streams(runner.run((program, "-hide_banner", "-i", str(path)), timeout=20).err)


def lay_clip(folder: Path) -> Path:
    """Write the clip that comes with gpustack into ``folder``."""
    path = folder / CLIP
    path.write_bytes((files("gpustack.verify") / "samples" / CLIP).read_bytes())
    return path


def decode(program: str, path: Path, to: Path, runner: Runner, *, scale: tuple[int, int] | None = None) -> Finished:
    """Decode a file in software into raw NV12 frames at ``to``, scaled if asked."""
    wanted = f"scale={scale[0]}:{scale[1]}:flags=bicubic,format=nv12" if scale else "format=nv12"
    return runner.run(
        (program, "-hide_banner", "-y", "-i", str(path), "-map", "0:v:0", "-vf", wanted, "-f", "rawvideo", str(to)),
        timeout=60,
    )


def frame_bytes(size: tuple[int, int]) -> int:
    """The bytes of one NV12 frame."""
    return size[0] * size[1] * 3 // 2


def frames_in(path: Path, size: tuple[int, int]) -> float:
    """How many NV12 frames a raw file holds; a fraction where it ends in the middle of one."""
    return path.stat().st_size / frame_bytes(size) if path.is_file() else 0


def same_bytes(one: Path, other: Path) -> bool:
    """Whether two files hold the same, read piece by piece."""
    if not one.is_file() or not other.is_file() or one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as left, other.open("rb") as right:
        while piece := left.read(1 << 20):
            if piece != right.read(1 << 20):
                return False
    return True


def psnr(one: Path, other: Path, size: tuple[int, int]) -> float:
    """The luma PSNR in dB between two raw NV12 files, over frames spread from first to last; infinite when equal.

    Computed here, because minimal builds of FFmpeg have no psnr filter. Raises ValueError where a file has no frame.
    """
    count = int(min(frames_in(one, size), frames_in(other, size)))
    if count == 0:
        msg = "there is no whole frame to compare"
        raise ValueError(msg)
    chosen = sorted({round(step * (count - 1) / max(1, _SAMPLED - 1)) for step in range(_SAMPLED)})
    luma, whole = size[0] * size[1], frame_bytes(size)
    squares = 0
    with one.open("rb") as left, other.open("rb") as right:
        for number in chosen:
            left.seek(number * whole)
            right.seek(number * whole)
            squares += sum((a - b) * (a - b) for a, b in zip(left.read(luma), right.read(luma), strict=True))
    mean = squares / (luma * len(chosen))
    return math.inf if mean == 0 else 10 * math.log10(255 * 255 / mean)
