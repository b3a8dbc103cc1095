"""Clips to work on, and the inspection of outputs: streams, frames, and how much the image differs."""

from __future__ import annotations

import math
import re
from importlib.resources import files
from pathlib import Path

from msgspec import Struct

from gpustack.system.run import Finished, Runner
from gpustack.verify.ffmpeg.programs import Program

CLIP = "clip.h264"
CLIP_SIZE = (640, 360)
CLIP_FRAMES = 48
CLIP_RATE = 24
"""The clip that is part of gpustack: a moving test image in H.264, so that decoding requires no encoder."""

_VIDEO = re.compile(r"Stream #\d+:\d+.*?: Video: (\w+).*?[ ,](\d{2,5})x(\d{2,5})[ ,\n]")
_PIXELS = re.compile(r"Stream #\d+:\d+.*?: Video: [^,]*, (\w+)")
_AUDIO = re.compile(r"Stream #\d+:\d+.*?: Audio: (\w+)")
_DURATION = re.compile(r"Duration: (\d+):(\d\d):(\d\d(?:\.\d+)?)")
_SAMPLED = 6
_STRIDE = 3
"""Every third byte is compared: that covers both colours, and different columns in each row."""
_BLOCK = 8
_C1, _C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
"""What keeps the similarity of flat blocks from a division by zero, as its authors chose."""
_SQUARES = {difference: difference * difference for difference in range(-255, 256)}


class Streams(Struct, frozen=True, kw_only=True):
    """What FFmpeg finds in a file. ``duration_s`` is None if the container has none, ``pixels`` the pixel format."""

    codec: str = ""
    size: tuple[int, int] = (0, 0)
    duration_s: float | None = None
    audio: str = ""
    pixels: str = ""


def streams(text: str) -> Streams:
    """Read what ``ffmpeg -i FILE`` prints about the file."""
    video = _VIDEO.search(text)
    audio = _AUDIO.search(text)
    pixels = _PIXELS.search(text)
    lasts = _DURATION.search(text)
    return Streams(
        codec=video[1] if video else "",
        size=(int(video[2]), int(video[3])) if video else (0, 0),
        duration_s=int(lasts[1]) * 3600 + int(lasts[2]) * 60 + float(lasts[3]) if lasts else None,
        audio=audio[1] if audio else "",
        pixels=pixels[1] if pixels else "",
    )


def inspect(program: str, path: Path, runner: Runner) -> Streams:
    """The streams of the file at ``path``."""
    return streams(runner.run((program, "-hide_banner", "-i", str(path)), timeout=20).err)


def write_clip(folder: Path) -> Path:
    """Write gpustack's clip into ``folder``."""
    path = folder / CLIP
    path.write_bytes((files("gpustack.verify") / "samples" / CLIP).read_bytes())
    return path


def encoder_options(program: Program) -> tuple[str, ...]:
    """The options with which ``program`` quickly encodes H.264 in software; () if it cannot."""
    name = next((one for one in ("libx264", "libopenh264") if one in program.encoders), "")
    quick = ("-preset", "ultrafast") if name == "libx264" else ()
    return ("-c:v", name, *quick) if name else ()


def decode(program: Program, path: Path, to: Path, runner: Runner, *, scale: tuple[int, int] | None = None) -> Finished:
    """Decode a file in software into raw NV12 frames at ``to``, optionally scaled: every frame in it, once."""
    wanted = f"scale={scale[0]}:{scale[1]}:flags=bicubic,format=nv12" if scale else "format=nv12"
    words = (program.path, "-hide_banner", "-y", "-i", str(path), "-map", "0:v:0", "-vf", wanted)
    return runner.run((*words, *program.about.every_frame, "-f", "rawvideo", str(to)), timeout=60)


def frame_bytes(size: tuple[int, int]) -> int:
    """The bytes of one NV12 frame."""
    return size[0] * size[1] * 3 // 2


def count_frames(path: Path, size: tuple[int, int]) -> float:
    """The number of NV12 frames in a raw file; a fraction if it ends within one."""
    return path.stat().st_size / frame_bytes(size) if path.is_file() else 0


def same_bytes(one: Path, other: Path) -> bool:
    """Whether two files have the same content, read piece by piece."""
    if not one.is_file() or not other.is_file() or one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as left, other.open("rb") as right:
        while piece := left.read(1 << 20):
            if piece != right.read(1 << 20):
                return False
    return True


class Likeness(Struct, frozen=True, kw_only=True):
    """How similar a picture is to another, by the most different frame: ``psnr`` in dB, ``ssim`` from -1 to 1.

    ``psnr`` is that of all three planes, infinite if they are equal; ``ssim`` is that of brightness.
    """

    psnr: float
    ssim: float


def compare_frames(one: Path, other: Path, size: tuple[int, int]) -> Likeness:
    """Compare two raw NV12 files frame by frame: every frame's PSNR, the SSIM of frames spread from first to last.

    Computed here and not by FFmpeg's filters: minimal builds have none, and they pair frames by time stamps, so that
    a frame's neighbour is compared. Raises ValueError where a file has no frame.
    """
    count = int(min(count_frames(one, size), count_frames(other, size)))
    if count == 0:
        msg = "no complete frame to compare"
        raise ValueError(msg)
    sampled = {round(step * (count - 1) / max(1, _SAMPLED - 1)) for step in range(_SAMPLED)}
    whole = frame_bytes(size)
    farthest, least = 0.0, 1.0
    with one.open("rb") as left, other.open("rb") as right:
        for number in range(count):
            mine, theirs = left.read(whole), right.read(whole)
            if mine == theirs:
                continue
            apart = map(int.__sub__, mine[::_STRIDE], theirs[::_STRIDE])
            farthest = max(farthest, sum(map(_SQUARES.__getitem__, apart)) / len(mine[::_STRIDE]))
            if number in sampled:
                least = min(least, _ssim(mine, theirs, size))
    return Likeness(psnr=math.inf if farthest == 0 else 10 * math.log10(255 * 255 / farthest), ssim=least)


def _ssim(one: bytes, other: bytes, size: tuple[int, int]) -> float:
    """The mean structural similarity of the brightness of two frames, over blocks that do not overlap."""
    width, height = size
    found: list[float] = []
    for top in range(0, height - _BLOCK + 1, _BLOCK):
        rows = range(top * width, (top + _BLOCK) * width, width)
        for column in range(0, width - _BLOCK + 1, _BLOCK):
            mine = b"".join(one[row + column : row + column + _BLOCK] for row in rows)
            theirs = b"".join(other[row + column : row + column + _BLOCK] for row in rows)
            found.append(_ssim_of_block(mine, theirs))
    return sum(found) / len(found) if found else 1.0


def _ssim_of_block(one: bytes, other: bytes) -> float:
    if one == other:
        return 1.0
    count = len(one)
    mean, wanted = sum(one) / count, sum(other) / count
    spread = sum(map(int.__mul__, one, one)) / count - mean * mean
    spread_wanted = sum(map(int.__mul__, other, other)) / count - wanted * wanted
    together = sum(map(int.__mul__, one, other)) / count - mean * wanted
    brightness = (2 * mean * wanted + _C1) / (mean * mean + wanted * wanted + _C1)
    return brightness * (2 * together + _C2) / (spread + spread_wanted + _C2)
