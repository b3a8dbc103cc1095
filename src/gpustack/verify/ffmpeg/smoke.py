"""Smoke checks of FFmpeg: decode on NVDEC, transcode through NVENC, and the output compared with software."""

from __future__ import annotations

from functools import partial

from gpustack.model.results import Measurement
from gpustack.system.run import Finished, Runner
from gpustack.verify.declare import Context, Outcome, check, errored, failed, passed, skipped
from gpustack.verify.ffmpeg import media
from gpustack.verify.ffmpeg.engines import CODECS, Chip, session_limit
from gpustack.verify.ffmpeg.programs import Program
from gpustack.verify.ffmpeg.quick import _no_ffmpeg
from gpustack.verify.ffmpeg.setup import INSTALL, chip_under_test, failure, gpu_environment, program_under_test
from gpustack.verify.ffmpeg.transcode import Task, choose_way, decode_on_gpu, judge_output, run_with_remedies, transcode
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.commands import evidence_of

_SESSIONS = ("nvidia-smi", "--query-gpu=encoder.stats.sessionCount", "--format=csv,noheader")


def ready(context: Context) -> tuple[Program, Runner] | Outcome:
    """The program under test and the runner, or why there is nothing to test."""
    excused = host_facts.no_gpu(context.host) or _no_ffmpeg(context)
    program = program_under_test(context)
    if excused or program is None or context.runner is None:
        return excused or skipped("no FFmpeg was found", INSTALL)
    return program, context.runner


@check(
    "ffmpeg.nvdec",
    level="smoke",
    title="NVDEC output matches the software decoder",
    expects="GPU decoding of H.264 is bit-identical to software decoding.",
    fix="See FFmpeg's log under 'evidence' in the JSON or HTML report.",
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
    clip = media.write_clip(context.folder)
    software = context.folder / "software.yuv"
    plain = media.decode(program, clip, software, runner)
    if media.count_frames(software, media.CLIP_SIZE) != media.CLIP_FRAMES:
        return errored("the software decoder of this FFmpeg failed to decode the clip", evidence=evidence_of(plain))
    task = Task(program=program, clip=clip, runner=runner, env=gpu_environment(context.host))
    evidence: dict[str, str] = {}
    measured: dict[str, Measurement] = {}
    advice = ""
    for decoder in decoders:
        hardware = context.folder / f"{decoder}.yuv"
        ended = run_with_remedies(context.matrix, partial(decode_on_gpu, task, decoder, hardware))
        evidence.update(evidence_of(*ended.ends, work=context.work))
        advice = f"; {ended.note}" if ended.note else advice
        name = "-hwaccel cuda" if decoder == "cuda" else decoder
        if ended.last.code != 0:
            return failure(context, program, ended.last, f"decoding with {name}")
        count = media.count_frames(hardware, media.CLIP_SIZE)
        measured[f"{decoder}_frames"] = Measurement(value=count, unit="frames")
        if not media.same_bytes(hardware, software):
            wrong = f"{count:g} of {media.CLIP_FRAMES} frames" if count != media.CLIP_FRAMES else "different pixels"
            return failed(f"the output of {name} differs from the software decoder's: {wrong}", evidence=evidence)
        hardware.unlink()
    names = " and ".join("-hwaccel cuda" if one == "cuda" else one for one in decoders)
    return Outcome(
        status="pass",
        detail=f"{names}: {media.CLIP_FRAMES} frames of {media.CLIP_SIZE[0]}x{media.CLIP_SIZE[1]},"
        f" bit-identical to software ({program.called}){advice}",
        measurements=measured,
        evidence=evidence,
    )


def _sessions_in_use(context: Context) -> int | None:
    """The encode sessions open now on all GPUs; None where nvidia-smi does not report them."""
    counts = [line.strip() for line in context.run(*_SESSIONS, timeout=10).out.splitlines()]
    return sum(int(one) for one in counts if one.isdigit()) if counts else None


@check(
    "ffmpeg.sessions",
    level="smoke",
    title="an encode session is available",
    expects="Fewer encode sessions are open than the driver allows on this board.",
    fix="Stop other encodes: `nvidia-smi encodersessions` lists them.",
    needs=("ffmpeg.found",),
    limit_s=30,
)
def sessions(context: Context) -> Outcome:
    start = ready(context)
    if isinstance(start, Outcome):
        return start
    found = chip_under_test(context)
    if found.nvenc == 0:
        return skipped(found.why_no_nvenc)
    used = _sessions_in_use(context)
    limit = session_limit(context.matrix, found, host_facts.driver_version(context.host))
    open_now = "nvidia-smi does not report how many are open" if used is None else f"{used} open now"
    if limit is None:
        known = "no limit on this board" if found.sessions == "unrestricted" else "the limit of this board is unknown"
        return passed(f"{found.name}: {known}; {open_now}")
    if used is not None and used >= limit:
        return failed(
            f"the limit of encode sessions is reached: {used} of {limit} are open on this system",
            expected=f"fewer than {limit}",
            actual=str(used),
        )
    measured = {"limit": Measurement(value=limit, unit="sessions")}
    return passed(f"{found.name}: up to {limit} sessions on the whole system; {open_now}", measurements=measured)


def _encoders(program: Program, found: Chip) -> tuple[list[str], list[str]]:
    """The codecs to encode, and sentences on those skipped."""
    taken, left = [], []
    for codec in CODECS:
        if f"{codec}_nvenc" not in program.encoders:
            left.append(f"{codec}_nvenc is not compiled in")
        elif found.codecs is not None and codec not in found.codecs:
            left.append(f"the GPU does not encode {codec}")
        else:
            taken.append(codec)
    return taken, left


@check(
    "ffmpeg.nvenc",
    level="smoke",
    title="NVENC smoke transcode",
    expects="The GPU decodes, scales and encodes; frames, size, codec, duration and image of the output are correct.",
    fix="See FFmpeg's log under 'evidence' in the JSON or HTML report.",
    needs=("ffmpeg.compiled", "ffmpeg.sessions"),
    limit_s=300,
)
def nvenc(context: Context) -> Outcome:
    start = ready(context)
    if isinstance(start, Outcome):
        return start
    program, runner = start
    found = chip_under_test(context)
    if found.nvenc == 0:
        return _no_encoder(context, program, runner, found)
    codecs, left = _encoders(program, found)
    if not codecs:
        return failed(f"{program.called} has no encoder for this GPU: {'; '.join(left)}", INSTALL)
    clip = media.write_clip(context.folder)
    way = choose_way(program)
    task = Task(program=program, clip=clip, runner=runner, env=gpu_environment(context.host))
    evidence: dict[str, str] = {}
    measured: dict[str, Measurement] = {}
    for codec in codecs:
        made = context.folder / f"{codec}.mp4"
        ended = run_with_remedies(context.matrix, partial(transcode, task, way, f"{codec}_nvenc", made))
        evidence.update(evidence_of(*ended.ends, work=context.work))
        if ended.note and ended.note not in left:
            left.append(ended.note)
        if ended.last.code != 0:
            return failure(context, program, ended.last, f"encoding with {codec}_nvenc")
        judged = judge_output(task, codec, way, made, context.folder)
        measured.update(judged.measurements)
        if judged.faults:
            return failed(
                f"{codec}_nvenc ran, but {'; '.join(judged.faults)}", measurements=measured, evidence=evidence
            )
    also = f"; {'; '.join(left)}" if left else ""
    detail = f"{way.name}: {', '.join(codecs)}{also} ({program.called})"
    return passed(detail, measurements=measured, evidence=evidence)


def _no_encoder(context: Context, program: Program, runner: Runner, found: Chip) -> Outcome:
    """The skip on a GPU without NVENC, with what the driver itself reports to an encoder."""
    end = try_encoder(program, runner, context)
    why = found.why_no_nvenc
    answer = failure(context, program, end, "h264_nvenc anyway").reason if end.code != 0 else ""
    if end.code == 0:
        return passed(f"{why} according to the matrix, but {program.path} encoded with h264_nvenc: the matrix is wrong")
    return Outcome(status="skip", reason=why, detail=answer, evidence=evidence_of(end, work=context.work))


def try_encoder(program: Program, runner: Runner, context: Context) -> Finished:
    """Encode the clip with h264_nvenc from software frames, and discard the output."""
    clip = media.write_clip(context.folder)
    words = (program.path, "-hide_banner", "-y", "-i", str(clip), "-vf", "format=yuv420p", "-c:v", "h264_nvenc")
    return runner.run((*words, "-f", "null", "-"), timeout=60, env=gpu_environment(context.host))
