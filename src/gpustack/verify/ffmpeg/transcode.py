"""The smoke transcode: decode, scale and encode on the GPU, and the comparison of its output."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.model.results import Measurement
from gpustack.system.run import Finished, Runner
from gpustack.verify.ffmpeg import media
from gpustack.verify.ffmpeg.causes import key_of
from gpustack.verify.ffmpeg.diagnosis import REMEDIES, last_error
from gpustack.verify.ffmpeg.programs import Program

SCALED = (480, 270)
LEAST_PSNR_DB = 30.0
LEAST_SSIM = 0.95
"""Less than these is another picture. Tried with the clip: every scaler of FFmpeg, and H.264 from 0.5 Mbit/s on, stay
above 31 dB and 0.97 in the worst frame; a frame late gives 24 dB and 0.90, a shift by two pixels 27 dB and 0.88, other
brightness 22 dB, lost colours 15 dB."""

DURATION_SLACK_S = 0.1
_CUDA = ("-hwaccel", "cuda", "-hwaccel_output_format", "cuda")


class Way(Struct, frozen=True, kw_only=True):
    """How frames pass through the GPU: options before the input, the filter, and the size of the output."""

    name: str
    before: tuple[str, ...]
    filter: str
    size: tuple[int, int]


def choose_way(program: Program) -> Way:
    """The longest path on the GPU that this build supports: scale_cuda, else the decoder's own resizer, else none."""
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
    return Way(name="encode (NVDEC not compiled in)", before=(), filter="", size=media.CLIP_SIZE)


class Task(Struct, frozen=True, kw_only=True):
    """What to run: the program, the clip that it reads, its environment, and its time limit."""

    program: Program
    clip: Path
    runner: Runner
    env: dict[str, str]
    limit_s: float = 60.0


def transcode(task: Task, way: Way, encoder: str, to: Path, before: tuple[str, ...] = ()) -> Finished:
    """Run the clip through the GPU into ``to``; ``before`` are further options before the input."""
    filters = ("-vf", way.filter) if way.filter else ()
    words = (task.program.path, "-hide_banner", "-y", *before, *way.before, "-i", str(task.clip), "-an", *filters)
    return task.runner.run((*words, "-c:v", encoder, "-b:v", "4M", str(to)), timeout=task.limit_s, env=task.env)


class Ended(Struct, frozen=True, kw_only=True):
    """The decisive run, every run in order, and the options that only the last one had."""

    last: Finished
    ends: tuple[Finished, ...]
    note: str = ""


def run_with_remedies(matrix: Matrix, run: Callable[[tuple[str, ...]], Finished]) -> Ended:
    """Run without further options, and once more with those that fix the failure, where some are known.

    ``run`` takes the options before the input. A run that succeeds may have reported such a failure too: it has then
    dropped frames.
    """
    first = run(())
    remedy = REMEDIES.get(key_of(matrix, first.err), ())
    if not remedy:
        return Ended(last=first, ends=(first,))
    second = run(remedy)
    return Ended(last=second, ends=(first, second), note=f"this release requires {' '.join(remedy)} before -i")


class Judged(Struct, frozen=True, kw_only=True):
    """The findings about an output: ``faults`` are sentences, empty if all is correct."""

    faults: tuple[str, ...]
    measurements: dict[str, Measurement]


def stop_remark(end: Finished) -> str:
    """Why decoding a file stopped before its end, as a remark; "" where it did not."""
    if end.code == 0:
        return ""
    return f" (decoding stopped: {last_error(end.err) or end.error or f'exit code {end.code}'})"


def judge_output(task: Task, codec: str, way: Way, made: Path, folder: Path) -> Judged:
    """Compare the file ``made`` with the software path of the same clip: codec, size, duration, frames, picture."""
    program, runner = task.program, task.runner
    found = media.inspect(program.path, made, runner)
    if not found.codec:
        return Judged(faults=("the output contains no video stream",), measurements={})
    faults: list[str] = []
    if found.codec != codec:
        faults.append(f"the output's codec is {found.codec} instead of {codec}")
    if found.size != way.size:
        faults.append(f"its size is {found.size[0]}x{found.size[1]} instead of {way.size[0]}x{way.size[1]}")
    lasts = media.CLIP_FRAMES / media.CLIP_RATE
    if found.duration_s is None or abs(found.duration_s - lasts) > DURATION_SLACK_S:
        own_s = "unknown" if found.duration_s is None else f"{found.duration_s:g} s"
        faults.append(f"its duration is {own_s} instead of {lasts:g} s")
    if faults:
        return Judged(faults=tuple(faults), measurements={})
    own, reference = folder / f"{codec}-gpu.yuv", folder / f"{codec}-software.yuv"
    back = media.decode(program, made, own, runner)
    media.decode(program, task.clip, reference, runner, scale=way.size)
    count = media.count_frames(own, way.size)
    measured = {f"{codec}_frames": Measurement(value=count, unit="frames")}
    if back.code != 0 or count != media.CLIP_FRAMES:
        fault = f"the output contains {count:g} frames instead of {media.CLIP_FRAMES}{stop_remark(back)}"
        return Judged(faults=(fault,), measurements=measured)
    try:
        near = media.compare_frames(own, reference, way.size)
    except ValueError as exc:
        return Judged(faults=(f"the software decoder wrote nothing to compare with: {exc}",), measurements=measured)
    finally:
        for path in (own, reference):
            path.unlink(missing_ok=True)
    measured[f"{codec}_psnr"] = Measurement(value=min(round(near.psnr, 2), 999.0), unit="dB")
    measured[f"{codec}_ssim"] = Measurement(value=round(near.ssim, 4), unit="")
    if near.psnr < LEAST_PSNR_DB or near.ssim < LEAST_SSIM:
        faults.append(
            f"its image differs from the clip's: PSNR {near.psnr:.1f} dB and SSIM {near.ssim:.3f}; required are at"
            " least"
            f" {LEAST_PSNR_DB:g} dB and {LEAST_SSIM:g}"
        )
    return Judged(faults=tuple(faults), measurements=measured)


def decode_on_gpu(task: Task, decoder: str, to: Path, before: tuple[str, ...] = ()) -> Finished:
    """Decode the clip on the GPU into raw NV12: ``decoder`` is "cuda" for -hwaccel cuda, else a cuvid decoder."""
    chosen = _CUDA if decoder == "cuda" else ("-c:v", decoder)
    filters = "hwdownload,format=nv12" if decoder == "cuda" else "format=nv12"
    words = (task.program.path, "-hide_banner", "-y", *before, *chosen, "-i", str(task.clip), "-an", "-vf", filters)
    as_decoded = (*task.program.about.every_frame, "-f", "rawvideo", str(to))
    return task.runner.run((*words, *as_decoded), timeout=task.limit_s, env=task.env)
