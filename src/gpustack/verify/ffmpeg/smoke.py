"""Smoke checks of FFmpeg: decode on NVDEC, transcode through NVENC, and what came out compared with software."""

from __future__ import annotations

from functools import partial

from gpustack.model.results import Measurement
from gpustack.system.run import Finished, Runner
from gpustack.verify.declare import Context, Outcome, check, errored, failed, passed, skipped
from gpustack.verify.ffmpeg import media
from gpustack.verify.ffmpeg.engines import CODECS, Chip, session_limit
from gpustack.verify.ffmpeg.programs import Program
from gpustack.verify.ffmpeg.quick import _no_ffmpeg
from gpustack.verify.ffmpeg.setup import INSTALL, chip, failure, gpu_environment, tested
from gpustack.verify.ffmpeg.transcode import Task, decode_on_gpu, judge, patiently, transcode, way_of
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.commands import evidence_of

_SESSIONS = ("nvidia-smi", "--query-gpu=encoder.stats.sessionCount", "--format=csv,noheader")


def ready(context: Context) -> tuple[Program, Runner] | Outcome:
    """The program that is tested and the runner, or why there is nothing to test."""
    excused = host_facts.no_gpu(context.host) or _no_ffmpeg(context)
    program = tested(context)
    if excused or program is None or context.runner is None:
        return excused or skipped("no FFmpeg was found", INSTALL)
    return program, context.runner


@check(
    "ffmpeg.nvdec",
    level="smoke",
    title="NVDEC decodes as software does",
    expects="The GPU decodes H.264 to the very bytes that the software decoder gives.",
    mends="Read FFmpeg's own words: they are the evidence in what `--format json` or `--format html` writes.",
    needs=("ffmpeg.compiled",),
    limit_s=180,
)
def nvdec(context: Context) -> Outcome:
    start = ready(context)
    if isinstance(start, Outcome):
        return start
    program, runner = start
    decoders = ["cuda"] if "cuda" in program.accelerations else []
    decoders += ["h264_cuvid"] if "h264_cuvid" in program.decoders else []
    if not decoders:
        return failed(f"{program.called} was built without NVDEC", INSTALL)
    clip = media.lay_clip(context.folder)
    software = context.folder / "software.yuv"
    plain = media.decode(program, clip, software, runner)
    if media.frames_in(software, media.CLIP_SIZE) != media.CLIP_FRAMES:
        return errored("the software decoder of this FFmpeg did not decode the clip", evidence=evidence_of(plain))
    task = Task(program=program, clip=clip, runner=runner, env=gpu_environment(context.host))
    told: dict[str, str] = {}
    measured: dict[str, Measurement] = {}
    advice = ""
    for decoder in decoders:
        hardware = context.folder / f"{decoder}.yuv"
        ended = patiently(context.matrix, partial(decode_on_gpu, task, decoder, hardware))
        told.update(evidence_of(*ended.ends, work=context.work))
        advice = f"; {ended.note}" if ended.note else advice
        name = "-hwaccel cuda" if decoder == "cuda" else decoder
        if ended.last.code != 0:
            return failure(context, program, ended.last, f"decoding with {name}")
        count = media.frames_in(hardware, media.CLIP_SIZE)
        measured[f"{decoder}_frames"] = Measurement(value=count, unit="frames")
        if not media.same_bytes(hardware, software):
            wrong = f"{count:g} of {media.CLIP_FRAMES} frames" if count != media.CLIP_FRAMES else "other pixels"
            return failed(f"{name} does not give what the software decoder gives: {wrong}", evidence=told)
        hardware.unlink()
    names = " and ".join("-hwaccel cuda" if one == "cuda" else one for one in decoders)
    return Outcome(
        status="pass",
        detail=f"{names}: {media.CLIP_FRAMES} frames of {media.CLIP_SIZE[0]}x{media.CLIP_SIZE[1]},"
        f" bit-exact with software ({program.called}){advice}",
        measurements=measured,
        evidence=told,
    )


def _sessions_in_use(context: Context) -> int | None:
    """The encode sessions open now on all GPUs; None where nvidia-smi does not tell."""
    counts = [line.strip() for line in context.run(*_SESSIONS, timeout=10).out.splitlines()]
    return sum(int(one) for one in counts if one.isdigit()) if counts else None


@check(
    "ffmpeg.sessions",
    level="smoke",
    title="a free encode session",
    expects="Fewer encode sessions are open than the driver allows on this board.",
    mends="End other encodes: `nvidia-smi encodersessions` lists them.",
    needs=("ffmpeg.found",),
    limit_s=30,
)
def sessions(context: Context) -> Outcome:
    start = ready(context)
    if isinstance(start, Outcome):
        return start
    found = chip(context)
    if found.nvenc == 0:
        return skipped(found.why_no_nvenc)
    used = _sessions_in_use(context)
    limit = session_limit(context.matrix, found, host_facts.driver_version(context.host))
    open_now = "nvidia-smi does not tell how many are open" if used is None else f"{used} open now"
    if limit is None:
        known = "no limit on this board" if found.sessions == "unrestricted" else "the limit of this board is not known"
        return passed(f"{found.name}: {known}; {open_now}")
    if used is not None and used >= limit:
        return failed(
            f"the session limit is reached: {used} of {limit} encode sessions are open on this system",
            expected=f"fewer than {limit}",
            actual=str(used),
        )
    measured = {"limit": Measurement(value=limit, unit="sessions")}
    return passed(f"{found.name}: {limit} sessions at once on the whole system; {open_now}", measurements=measured)


def _encoders(program: Program, found: Chip) -> tuple[list[str], list[str]]:
    """The codecs to encode, and sentences on those left out."""
    taken, left = [], []
    for codec in CODECS:
        if f"{codec}_nvenc" not in program.encoders:
            left.append(f"{codec}_nvenc is not compiled in")
        elif found.codecs is not None and codec not in found.codecs:
            left.append(f"the chip does not encode {codec}")
        else:
            taken.append(codec)
    return taken, left


@check(
    "ffmpeg.nvenc",
    level="smoke",
    title="NVENC smoke transcode",
    expects="Decode, scale and encode on the GPU; the output has the clip's frames, size, codec, duration and picture.",
    mends="Read FFmpeg's own words: they are the evidence in what `--format json` or `--format html` writes.",
    needs=("ffmpeg.compiled", "ffmpeg.sessions"),
    limit_s=300,
)
def nvenc(context: Context) -> Outcome:
    start = ready(context)
    if isinstance(start, Outcome):
        return start
    program, runner = start
    found = chip(context)
    if found.nvenc == 0:
        return _no_encoder(context, program, runner, found)
    codecs, left = _encoders(program, found)
    if not codecs:
        return failed(f"{program.called} has no encoder for this chip: {'; '.join(left)}", INSTALL)
    clip = media.lay_clip(context.folder)
    way = way_of(program)
    task = Task(program=program, clip=clip, runner=runner, env=gpu_environment(context.host))
    told: dict[str, str] = {}
    measured: dict[str, Measurement] = {}
    for codec in codecs:
        made = context.folder / f"{codec}.mp4"
        ended = patiently(context.matrix, partial(transcode, task, way, f"{codec}_nvenc", made))
        told.update(evidence_of(*ended.ends, work=context.work))
        if ended.note and ended.note not in left:
            left.append(ended.note)
        if ended.last.code != 0:
            return failure(context, program, ended.last, f"encoding with {codec}_nvenc")
        judged = judge(task, codec, way, made, context.folder)
        measured.update(judged.measurements)
        if judged.faults:
            return failed(f"{codec}_nvenc ran, but {'; '.join(judged.faults)}", measurements=measured, evidence=told)
    also = f"; {'; '.join(left)}" if left else ""
    detail = f"{way.name}: {', '.join(codecs)}{also} ({program.called})"
    return passed(detail, measurements=measured, evidence=told)


def _no_encoder(context: Context, program: Program, runner: Runner, found: Chip) -> Outcome:
    """The skip on a chip without NVENC, with what the driver itself says to an encoder beside it."""
    end = ask_encoder(program, runner, context)
    why = found.why_no_nvenc
    answer = failure(context, program, end, "asked all the same").reason if end.code != 0 else ""
    if end.code == 0:
        return passed(f"{why} by the tables, yet {program.path} encoded with h264_nvenc: the tables are wrong")
    return Outcome(status="skip", reason=why, detail=answer, evidence=evidence_of(end, work=context.work))


def ask_encoder(program: Program, runner: Runner, context: Context) -> Finished:
    """Let h264_nvenc encode the clip to nowhere, from software frames."""
    clip = media.lay_clip(context.folder)
    words = (program.path, "-hide_banner", "-y", "-i", str(clip), "-vf", "format=yuv420p", "-c:v", "h264_nvenc")
    return runner.run((*words, "-f", "null", "-"), timeout=60, env=gpu_environment(context.host))
