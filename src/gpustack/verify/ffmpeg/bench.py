"""Measures FFmpeg's engines as NVIDIA's guide does: several sessions at once, long clips, total frames per second."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from msgspec import Struct

from gpustack.errors import UnsupportedError
from gpustack.system.run import Finished, Runner, stop_commands
from gpustack.verify.declare import Context
from gpustack.verify.ffmpeg import media
from gpustack.verify.ffmpeg.causes import FEWER_THREADS
from gpustack.verify.ffmpeg.diagnosis import diagnose, last_error
from gpustack.verify.ffmpeg.engines import CODECS, session_limit
from gpustack.verify.ffmpeg.programs import Program
from gpustack.verify.ffmpeg.setup import chip_under_test, main_gpu, program_under_test, setup_of
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.bench_table import Bench, Cell, demand_whole
from gpustack.verify.frame.scratch import scratch_folder
from gpustack.versions import version

CONNECTIONS = "2"
"""CUDA_DEVICE_MAX_CONNECTIONS as the guide recommends: a session starts sooner with fewer."""

COLUMNS = (
    "work", "engine", "sessions", "outputs", "frames", "seconds", "fps", "fps_per_session", "slowest_s", "start_s",
)  # fmt: skip

_CUDA = ("-hwaccel", "cuda", "-hwaccel_output_format", "cuda")
_LIMIT_S = 600.0
_LOOK_S = 0.1
_RATE, _LASTS = 30, 2
"""Frames per second and seconds of a generated clip, before it is repeated."""


class Load(Struct, frozen=True, kw_only=True):
    """One kind of load: the options before the input and of each output, and the engines that it uses.

    One process makes ``outputs`` outputs of its input, which is decoded once.
    """

    name: str
    engine: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    outputs: int = 1


class Clip(Struct, frozen=True, kw_only=True):
    """What every session reads."""

    path: Path
    size: tuple[int, int]
    frames: int
    rate: int


class Wanted(Struct, frozen=True, kw_only=True):
    """What is measured: numbers of sessions and of outputs of each, the clip, and whether all GPUs are used."""

    sessions: tuple[int, ...]
    seconds: float
    size: tuple[int, int] = media.CLIP_SIZE
    outputs: tuple[int, ...] = (1,)
    all_gpus: bool = False


def possible_loads(program: Program, codecs: tuple[str, ...], outputs: tuple[int, ...] = (1,)) -> tuple[Load, ...]:
    """Every load that this program supports on this GPU's engines, the transcodes with each number of ``outputs``."""
    found: list[Load] = []
    if "cuda" in program.accelerations:
        found.append(Load(name="decode h264", engine="NVDEC", before=_CUDA, after=("-f", "null", "-")))
    for codec in codecs:
        encoder = ("-c:v", f"{codec}_nvenc", "-f", "null", "-")
        found.append(Load(name=f"encode {codec}", engine="NVENC", before=(), after=encoder))
        if "cuda" in program.accelerations:
            for count in outputs:
                name = f"transcode h264 to {codec if count == 1 else f'{count} x {codec}'}"
                found.append(Load(name=name, engine="both", before=_CUDA, after=encoder, outputs=count))
    return tuple(found)


def bench(context: Context, wanted: Wanted) -> Bench:
    """Measure the FFmpeg of this host on its GPU, or on all of them in turn.

    Raises UnsupportedError (exit 4) where there is no GPU, no FFmpeg that can use it, or none that makes a clip of
    that size; Interrupted, with the rows that were finished, if a signal ends it.
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
        clip = write_long_clip(folder, wanted.seconds, wanted.size, program, context.runner)
        rows: list[dict[str, Cell]] = []
        stop = None
        loads = [(work, count) for work in possible_loads(program, codecs, wanted.outputs) for count in wanted.sessions]
        try:
            for work, count in loads:
                row = _row(context, program, work, clip, environments(context, count, wanted), limit)
                if isinstance(row, str):
                    notes.append(row)
                else:
                    rows.append(row)
        except KeyboardInterrupt as exc:
            if not rows:
                raise
            stop = exc
    measured = Bench(
        subject="ffmpeg",
        settings={
            "ffmpeg": program.called,
            "gpu": f"{host_facts.name_of(gpu)}, {found.nvenc if found.nvenc is not None else '?'} NVENC,"
            f" {found.nvdec if found.nvdec is not None else '?'} NVDEC",
            "driver": host_facts.driver_version(context.host) or "unknown",
            "clip": f"{wanted.size[0]}x{wanted.size[1]} h264, {clip.frames} frames, {clip.frames / clip.rate:g} s",
            "CUDA_VISIBLE_DEVICES": _devices(environments(context, max(wanted.sessions), wanted)),
            "CUDA_DEVICE_MAX_CONNECTIONS": CONNECTIONS,
        },
        columns=COLUMNS,
        units={"seconds": "s", "slowest_s": "s", "start_s": "s"},
        rows=tuple(rows),
        notes=tuple(notes),
    )
    return demand_whole(measured, stop)


def _row(  # noqa: PLR0913, PLR0917 (the parts of one measurement)
    context: Context, program: Program, work: Load, clip: Clip, own: list[dict[str, str]], limit: int | None
) -> dict[str, Cell] | str:
    """The row of one load with as many sessions as ``own`` has variables, or a note on its absence."""
    named = f"{work.name} with {len(own)} sessions"
    if limit is not None and work.engine != "NVDEC" and len(own) * work.outputs > limit:
        return f"{named} was skipped: the driver allows {limit}"
    row = measure_sessions(context, program, work, clip, own)
    return f"{named}: {row}" if isinstance(row, str) else row


def environments(context: Context, count: int, wanted: Wanted) -> list[dict[str, str]]:
    """The variables of each session, as the guide recommends: one device, few connections."""
    own = host_facts.own_gpus(context.host)
    gpu = main_gpu(context.host)
    places = [*range(len(own))] if wanted.all_gpus else [own.index(gpu) if gpu in own else 0]
    return [
        {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": str(places[number % len(places)]),
            "CUDA_DEVICE_MAX_CONNECTIONS": CONNECTIONS,
        }
        for number in range(count)
    ]


def _devices(sessions: list[dict[str, str]]) -> str:
    return ", ".join(sorted({one["CUDA_VISIBLE_DEVICES"] for one in sessions}, key=int))


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


def measure_sessions(
    context: Context, program: Program, work: Load, clip: Clip, own: list[dict[str, str]]
) -> dict[str, Cell] | str:
    """Run one session with each of the variables ``own``, all at once: the row, or the reason for its absence.

    ``start_s`` is the time of the slowest of the same sessions on a single frame: what each short piece costs.
    """
    runner = context.runner
    if runner is None:
        return "a saved host cannot run anything"
    threads = FEWER_THREADS if work.before and version(program.about.version or "0") < version("7") else ()
    head = (program.path, "-hide_banner", "-nostdin", "-y", *threads, *work.before, "-i", str(clip.path))

    def run(each: tuple[str, ...]) -> list[Finished]:
        words = (*head, *(each * work.outputs))
        with ThreadPoolExecutor(len(own)) as pool:
            sessions = [pool.submit(runner.run, words, timeout=_LIMIT_S, env=one) for one in own]
            try:
                return [one.result() for one in sessions]
            except KeyboardInterrupt:
                # The pool waits for its threads, and these for their sessions; one may only be about to start.
                while wait(sessions, timeout=_LOOK_S).not_done:
                    stop_commands()
                raise

    started = context.clock()
    ends = run(("-an", *work.after))
    seconds = context.clock() - started
    starts = [] if any(end.code != 0 for end in ends) else run(("-an", "-frames:v", "1", *work.after))
    broken = next((end for end in (*ends, *starts) if end.code != 0), None)
    if broken is not None:
        found = diagnose(context.matrix, broken.err, broken.code, setup_of(context, program))
        return broken.error or found.cause
    total = clip.frames * len(own) * work.outputs
    return {
        "work": work.name,
        "engine": work.engine,
        "sessions": len(own),
        "outputs": work.outputs,
        "frames": total,
        "seconds": round(seconds, 3),
        "fps": round(total / seconds, 1),
        "fps_per_session": round(total / seconds / len(own), 1),
        "slowest_s": round(max(end.seconds for end in ends), 3),
        "start_s": round(max(end.seconds for end in starts), 3),
    }
