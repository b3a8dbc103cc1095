"""Measures FFmpeg's engines as NVIDIA's guide does: several sessions at once, long clips, total frames per second."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from gpustack.errors import UnsupportedError
from gpustack.system.run import Finished, Runner
from gpustack.verify.declare import Context
from gpustack.verify.ffmpeg import media
from gpustack.verify.ffmpeg.causes import FEWER_THREADS
from gpustack.verify.ffmpeg.diagnosis import diagnose, last_error
from gpustack.verify.ffmpeg.engines import CODECS, session_limit
from gpustack.verify.ffmpeg.programs import Program
from gpustack.verify.ffmpeg.setup import chip_under_test, main_gpu, program_under_test, setup_of
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.bench_table import Bench, Cell
from gpustack.verify.frame.scratch import scratch_folder
from gpustack.versions import version

CONNECTIONS = "2"
"""CUDA_DEVICE_MAX_CONNECTIONS as the guide recommends: a session starts sooner with fewer."""

_CUDA = ("-hwaccel", "cuda", "-hwaccel_output_format", "cuda")
_LIMIT_S = 600.0
_RATE, _LASTS = 30, 2
"""Frames per second and seconds of a generated clip, before it is repeated."""


class Load(Struct, frozen=True, kw_only=True):
    """One kind of load: the options before and after the input, and the engines that it uses."""

    name: str
    engine: str
    before: tuple[str, ...]
    after: tuple[str, ...]


class Clip(Struct, frozen=True, kw_only=True):
    """What every session reads."""

    path: Path
    size: tuple[int, int]
    frames: int
    rate: int


def possible_loads(program: Program, codecs: tuple[str, ...]) -> tuple[Load, ...]:
    """Every load that this program supports on this GPU's engines."""
    found: list[Load] = []
    if "cuda" in program.accelerations:
        found.append(Load(name="decode h264", engine="NVDEC", before=_CUDA, after=("-f", "null", "-")))
    for codec in codecs:
        encoder = ("-c:v", f"{codec}_nvenc", "-f", "null", "-")
        found.append(Load(name=f"encode {codec}", engine="NVENC", before=(), after=encoder))
        if "cuda" in program.accelerations:
            found.append(Load(name=f"transcode h264 to {codec}", engine="both", before=_CUDA, after=encoder))
    return tuple(found)


def bench(
    context: Context, sessions: tuple[int, ...], seconds: float, size: tuple[int, int] = media.CLIP_SIZE
) -> Bench:
    """Measure the FFmpeg of this host on its GPU with each number of ``sessions`` on a clip of ``seconds``.

    Raises UnsupportedError (exit 4) where there is no GPU, no FFmpeg that can use it, or none that makes a clip of
    ``size``.
    """
    program, gpu, found = program_under_test(context), main_gpu(context.host), chip_under_test(context)
    if gpu is None or program is None or context.runner is None:
        msg = "no NVIDIA GPU was found" if gpu is None else "no FFmpeg was found"
        raise UnsupportedError(msg, code="benchmark-unavailable", hint="`gpustack verify ffmpeg` lists what was found")
    codecs = tuple(
        one
        for one in CODECS
        if f"{one}_nvenc" in program.encoders and found.nvenc != 0 and (found.codecs is None or one in found.codecs)
    )
    limit = session_limit(context.matrix, found, host_facts.driver_version(context.host))
    notes = [found.why_no_nvenc] if found.nvenc == 0 else []
    with scratch_folder("gpustack-bench-") as folder:
        clip = write_long_clip(folder, seconds, size, program, context.runner)
        rows: list[dict[str, Cell]] = []
        for work in possible_loads(program, codecs):
            for count in sessions:
                if limit is not None and "encode" in work.name and count > limit:
                    notes.append(f"{work.name} with {count} sessions was skipped: the driver allows {limit}")
                    continue
                row = measure_sessions(context, program, work, clip, count)
                if isinstance(row, str):
                    notes.append(f"{work.name} with {count} sessions: {row}")
                else:
                    rows.append(row)
    return Bench(
        subject="ffmpeg",
        settings={
            "ffmpeg": program.called,
            "gpu": f"{host_facts.name_of(gpu)}, {found.nvenc if found.nvenc is not None else '?'} NVENC,"
            f" {found.nvdec if found.nvdec is not None else '?'} NVDEC",
            "driver": host_facts.driver_version(context.host) or "unknown",
            "clip": f"{size[0]}x{size[1]} h264, {clip.frames} frames, {clip.frames / clip.rate:g} s",
            "CUDA_VISIBLE_DEVICES": environment(context)["CUDA_VISIBLE_DEVICES"],
            "CUDA_DEVICE_MAX_CONNECTIONS": CONNECTIONS,
        },
        columns=("work", "engine", "sessions", "frames", "seconds", "fps", "fps_per_session", "slowest_s"),
        units={"seconds": "s", "slowest_s": "s"},
        rows=tuple(rows),
        notes=tuple(notes),
    )


def environment(context: Context) -> dict[str, str]:
    """The variables that the guide recommends: one device, few connections."""
    own = host_facts.own_gpus(context.host)
    gpu = main_gpu(context.host)
    place = own.index(gpu) if gpu in own else 0
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": str(place),
        "CUDA_DEVICE_MAX_CONNECTIONS": CONNECTIONS,
    }


def write_long_clip(folder: Path, seconds: float, size: tuple[int, int], program: Program, runner: Runner) -> Clip:
    """A clip of ``size`` as often as ``seconds`` take, as one elementary stream.

    Raises UnsupportedError where ``program`` has no software encoder to make one of another size than gpustack's own.
    """
    if size == media.CLIP_SIZE:
        one, frames, rate = media.write_clip(folder), media.CLIP_FRAMES, media.CLIP_RATE
    else:
        one, frames, rate = _generated(folder, size, program, runner), _RATE * _LASTS, _RATE
    times = max(1, math.ceil(seconds * rate / frames))
    long = folder / "long.h264"
    # Every copy begins with its own parameter sets and a key frame, so the copies make one stream.
    with long.open("wb") as stream:
        for _ in range(times):
            stream.write(one.read_bytes())
    return Clip(path=long, size=size, frames=frames * times, rate=rate)


def _generated(folder: Path, size: tuple[int, int], program: Program, runner: Runner) -> Path:
    encoder = media.encoder_options(program)
    source = f"testsrc2=size={size[0]}x{size[1]}:rate={_RATE}:duration={_LASTS}"
    path = folder / "generated.h264"
    words = (program.path, "-hide_banner", "-y", "-f", "lavfi", "-i", source, "-pix_fmt", "yuv420p", *encoder)
    end = runner.run((*words, "-f", "h264", str(path)), timeout=120) if encoder else None
    if end is None or end.code != 0:
        msg = f"{program.path} cannot generate a clip of {size[0]}x{size[1]}: " + (
            last_error(end.err) if end else "it has no software encoder for H.264"
        )
        raise UnsupportedError(
            msg, code="benchmark-unavailable", hint="omit --size, or select another FFmpeg with --ffmpeg"
        )
    return path


def measure_sessions(context: Context, program: Program, work: Load, clip: Clip, count: int) -> dict[str, Cell] | str:
    """Run ``count`` sessions at once: the row, or the reason for its absence."""
    runner = context.runner
    if runner is None:
        return "a saved host cannot run anything"
    threads = FEWER_THREADS if work.before and version(program.about.version or "0") < version("7") else ()
    words = (
        program.path,
        "-hide_banner",
        "-nostdin",
        "-y",
        *threads,
        *work.before,
        "-i",
        str(clip.path),
        "-an",
        *work.after,
    )
    own = environment(context)

    def session(_: int) -> Finished:
        return runner.run(words, timeout=_LIMIT_S, env=own)

    started = context.clock()
    with ThreadPoolExecutor(count) as pool:
        ends = list(pool.map(session, range(count)))
    seconds = context.clock() - started
    broken = next((end for end in ends if end.code != 0), None)
    if broken is not None:
        found = diagnose(context.matrix, broken.err, broken.code, setup_of(context, program))
        return broken.error or found.cause
    total = clip.frames * count
    return {
        "work": work.name,
        "engine": work.engine,
        "sessions": count,
        "frames": total,
        "seconds": round(seconds, 3),
        "fps": round(total / seconds, 1),
        "fps_per_session": round(total / seconds / count, 1),
        "slowest_s": round(max(end.seconds for end in ends), 3),
    }
