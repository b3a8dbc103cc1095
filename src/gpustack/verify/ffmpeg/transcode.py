"""The smoke transcode: decode, scale and encode on the GPU, and what its output is compared with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.model.results import Measurement
from gpustack.system.run import Finished, Runner
from gpustack.verify.ffmpeg import media
from gpustack.verify.ffmpeg.diagnosis import FEWER_THREADS, key_of
from gpustack.verify.ffmpeg.programs import Program

SCALED = (480, 270)
LEAST_PSNR_DB = 25.0
"""Less than this is another picture: a wrong one is below 15 dB; scalers and encoders differ by far less."""

DURATION_SLACK_S = 0.1
_CUDA = ("-hwaccel", "cuda", "-hwaccel_output_format", "cuda")


class Way(Struct, frozen=True, kw_only=True):
    """How frames get through the GPU: options before the input, the filter, and the frames' size at the end."""

    name: str
    before: tuple[str, ...]
    filter: str
    size: tuple[int, int]


def way_of(program: Program) -> Way:
    """The longest way on the GPU that this build offers: scale_cuda, else the decoder's own resizer, else none."""
    width, height = SCALED
    for name in ("scale_cuda", "scale_npp"):
        if "cuda" in program.accelerations and name in program.filters:
            return Way(name=f"decode, {name}, encode", before=_CUDA, filter=f"{name}={width}:{height}", size=SCALED)
    if "h264_cuvid" in program.decoders:
        before = (*(_CUDA if "cuda" in program.accelerations else ()), "-c:v", "h264_cuvid")
        return Way(
            name="decode and resize by h264_cuvid, encode",
            before=(*before, "-resize", f"{width}x{height}"),
            filter="",
            size=SCALED,
        )
    if "cuda" in program.accelerations:
        return Way(name="decode, encode (no GPU scaler compiled in)", before=_CUDA, filter="", size=media.CLIP_SIZE)
    return Way(name="encode (no NVDEC compiled in)", before=(), filter="", size=media.CLIP_SIZE)


class Task(Struct, frozen=True, kw_only=True):
    """What runs where: the program, the clip that it reads, and what it is told by its environment."""

    program: Program
    clip: Path
    runner: Runner
    env: dict[str, str]


def transcode(task: Task, way: Way, encoder: str, to: Path, before: tuple[str, ...] = ()) -> Finished:
    """Run the clip through the GPU into ``to``; ``before`` are further options before the input."""
    filters = ("-vf", way.filter) if way.filter else ()
    words = (task.program.path, "-hide_banner", "-y", *before, *way.before, "-i", str(task.clip), "-an", *filters)
    return task.runner.run((*words, "-c:v", encoder, "-b:v", "4M", str(to)), timeout=60, env=task.env)


def patiently(matrix: Matrix, run: Callable[[tuple[str, ...]], Finished]) -> tuple[Finished, tuple[Finished, ...]]:
    """Run with no further options, and once more with fewer threads where NVDEC had too few surfaces for all.

    ``run`` takes the options that go before the input. The end that counts, and every end in order.
    """
    first = run(())
    if first.code == 0 or key_of(matrix, first.err) != "too_many_surfaces":
        return first, (first,)
    second = run(FEWER_THREADS)
    return second, (first, second)


class Judged(Struct, frozen=True, kw_only=True):
    """What was found in an output: ``faults`` are sentences, empty where all is right."""

    faults: tuple[str, ...]
    measurements: dict[str, Measurement]


def judge(task: Task, codec: str, way: Way, made: Path, folder: Path) -> Judged:
    """Compare the file ``made`` with the software path of the same clip: codec, size, duration, frames, picture."""
    program, runner = task.program.path, task.runner
    found = media.look(program, made, runner)
    faults: list[str] = []
    if found.codec != codec:
        faults.append(f"its codec is {found.codec or 'none'}, not {codec}")
    if found.size != way.size:
        faults.append(f"its size is {found.size[0]}x{found.size[1]}, not {way.size[0]}x{way.size[1]}")
    lasts = media.CLIP_FRAMES / media.CLIP_RATE
    if found.duration_s is None or abs(found.duration_s - lasts) > DURATION_SLACK_S:
        faults.append(f"it lasts {found.duration_s} s, not {lasts:g} s")
    if faults:
        return Judged(faults=tuple(faults), measurements={})
    own, reference = folder / f"{codec}-gpu.yuv", folder / f"{codec}-software.yuv"
    back = media.decode(program, made, own, runner)
    media.decode(program, task.clip, reference, runner, scale=way.size)
    count = media.frames_in(own, way.size)
    measured = {f"{codec}_frames": Measurement(value=count, unit="frames")}
    if back.code != 0 or count != media.CLIP_FRAMES:
        said = "" if back.code == 0 else f" (decoding it stopped with exit status {back.code})"
        return Judged(faults=(f"it holds {count:g} frames, not {media.CLIP_FRAMES}{said}",), measurements=measured)
    try:
        decibels = media.psnr(own, reference, way.size)
    except ValueError as exc:
        return Judged(faults=(f"the software path made nothing to compare with: {exc}",), measurements=measured)
    finally:
        for path in (own, reference):
            path.unlink(missing_ok=True)
    measured[f"{codec}_psnr"] = Measurement(value=min(round(decibels, 2), 999.0), unit="dB")
    if decibels < LEAST_PSNR_DB:
        faults.append(f"its picture is not that of the clip: PSNR {decibels:.1f} dB, at least {LEAST_PSNR_DB:g} needed")
    return Judged(faults=tuple(faults), measurements=measured)


def decode_on_gpu(task: Task, decoder: str, to: Path, before: tuple[str, ...] = ()) -> Finished:
    """Decode the clip on the GPU into raw NV12: ``decoder`` is "cuda" for -hwaccel cuda, else a cuvid decoder."""
    chosen = _CUDA if decoder == "cuda" else ("-c:v", decoder)
    filters = "hwdownload,format=nv12" if decoder == "cuda" else "format=nv12"
    words = (task.program.path, "-hide_banner", "-y", *before, *chosen, "-i", str(task.clip), "-an", "-vf", filters)
    return task.runner.run((*words, "-f", "rawvideo", str(to)), timeout=60, env=task.env)
