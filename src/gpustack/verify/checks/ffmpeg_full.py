"""Full checks of FFmpeg: every command of NVIDIA's guide, in the spelling that the installed FFmpeg takes."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from gpustack.model.results import Measurement
from gpustack.system.run import Finished, Runner
from gpustack.verify.checks.ffmpeg_smoke import ready
from gpustack.verify.commands import evidence_of
from gpustack.verify.declare import Check, Context, Outcome, errored, failed, passed, register, skipped
from gpustack.verify.ffmpeg import media
from gpustack.verify.ffmpeg.diagnosis import SUBJECT, last_error
from gpustack.verify.ffmpeg.guide import SIZE, GuideCommand, guide_commands, missing, with_before_inputs
from gpustack.verify.ffmpeg.programs import Program
from gpustack.verify.ffmpeg.scene import chip, failure, gpu_environment
from gpustack.verify.ffmpeg.transcode import Ended, patiently

FRAMES = 30
_KEYS = (
    "transcode_1to1", "resize", "crop", "scale_cuda", "scale_npp", "one_to_n", "yuv_1toN", "multi_1toN", "swdec_1toN",
    "encode", "decode_cuvid", "multi_decode", "hq_slow", "hq_medium", "hq_fast", "ll_llhq", "ll_llhp", "lookahead",
    "spatial_aq", "temporal_aq",
)  # fmt: skip
"""Every command of the guide; those of the matrix and the options it tells to add."""


def guide(key: str, context: Context) -> Outcome:
    """Run one command of the guide and look at every file that it makes."""
    start = ready(context)
    if isinstance(start, Outcome):
        return start
    program, runner = start
    command = next((one for one in guide_commands(context.matrix, program) if one.key == key), None)
    if command is None:
        return errored(f"the matrix has no command {key} in {SUBJECT}")
    found = chip(context)
    if found is not None and found.nvenc == 0 and any(name.endswith("_nvenc") for name in command.uses):
        return skipped(found.why_no_nvenc)
    lacks = missing(command, program)
    if lacks:
        return skipped(f"{program.path} was compiled without {', '.join(lacks)}")
    made = lay_inputs(program, command, context.folder, runner)
    if isinstance(made, Outcome):
        return made
    environment = gpu_environment(context.host)

    def run(before: tuple[str, ...]) -> Finished:
        words = (program.path, "-hide_banner", *with_before_inputs(command.arguments, before))
        return runner.run(words, timeout=120, env=environment, cwd=context.folder)

    ended = patiently(context.matrix, run)
    if ended.last.code != 0:
        return failure(context, program, ended.last, command.purpose)
    return _look(context, program, command, ended)


def _look(context: Context, program: Program, command: GuideCommand, ended: Ended) -> Outcome:
    """Compare the files that a command made with what it should have made."""
    assert context.runner is not None  # noqa: S101 (`ready` has answered otherwise)
    told = evidence_of(ended.last, work=context.work)
    faults: list[str] = []
    measured: dict[str, Measurement] = {}
    for name, size in command.makes.items():
        path = context.folder / name
        stopped = ""
        if name.endswith(".yuv"):
            count = media.frames_in(path, size)
        else:
            found = media.look(program.path, path, context.runner)
            raw = context.folder / f"{name}.back.yuv"
            back = media.decode(program, path, raw, context.runner)
            stopped = f" (decoding it stopped: {last_error(back.err)})" if back.code != 0 else ""
            count = media.frames_in(raw, size) if found.size == size else 0
            raw.unlink(missing_ok=True)
            if found.codec != "h264":
                faults.append(f"{name} holds {found.codec or 'no video'}, not h264")
            if found.size != size:
                faults.append(f"{name} is {found.size[0]}x{found.size[1]}, not {size[0]}x{size[1]}")
            if command.keeps_sound and not found.audio and _has_sound(context.folder):
                faults.append(f"{name} has lost its sound")
        measured[f"{name}_frames"] = Measurement(value=count, unit="frames")
        if count != FRAMES and not faults:
            faults.append(f"{name} holds {count:g} frames, not {FRAMES}{stopped}")
    measured["seconds"] = Measurement(value=round(ended.last.seconds, 3), unit="s")
    if faults:
        return failed(f"{command.purpose}: {'; '.join(faults)}", measurements=measured, evidence=told)
    made = ", ".join(f"{name} {size[0]}x{size[1]}" for name, size in command.makes.items())
    notes = "; ".join(note for note in (command.note, ended.note) if note)
    return passed(f"{command.purpose}: {made}{f' ({notes})' if notes else ''}", measurements=measured, evidence=told)


def _has_sound(folder: Path) -> bool:
    return (folder / ".sound").exists()


def lay_inputs(program: Program, command: GuideCommand, folder: Path, runner: Runner) -> Outcome | None:
    """Make the inputs that a command reads in ``folder``: clips of its names, generated by FFmpeg itself."""
    for name in command.takes:
        size = _raw_size(command) if name.endswith(".yuv") else SIZE
        source = f"testsrc2=size={size[0]}x{size[1]}:rate=30:duration={FRAMES / 30:g}"
        words = (program.path, "-hide_banner", "-y", "-f", "lavfi", "-i", source)
        if name.endswith(".yuv"):
            end = runner.run((*words, "-pix_fmt", "yuv420p", "-f", "rawvideo", str(folder / name)), timeout=60)
        else:
            end = _encoded(program, words, folder, name, runner)
        if end.code != 0:
            told = f"the input {name} could not be made with {program.path}"
            if media.encoder_options(program):
                return errored(told, evidence=evidence_of(end, work=folder))
            return skipped(f"{told}, which has no software encoder for H.264")
    return None


def _raw_size(command: GuideCommand) -> tuple[int, int]:
    words = command.arguments
    if "-video_size" not in words:
        return SIZE
    width, _, height = words[words.index("-video_size") + 1].partition("x")
    return int(width), int(height)


def _encoded(program: Program, words: tuple[str, ...], folder: Path, name: str, runner: Runner) -> Finished:
    """An H.264 file: by software where the build can, else by NVENC; with sound where there is an encoder for it."""
    sound: tuple[str, ...] = ()
    if name.endswith(".mp4") and "aac" in program.encoders and "sine" in program.filters:
        words = (*words, "-f", "lavfi", "-i", f"sine=frequency=440:duration={FRAMES / 30:g}")
        sound = ("-c:a", "aac")
        (folder / ".sound").touch()
    encoder = media.encoder_options(program) or ("-c:v", "h264_nvenc")
    made = (*words, "-pix_fmt", "yuv420p", *encoder, *sound)
    forced = ("-f", "h264") if name.endswith(".264") else ()
    return runner.run((*made, *forced, str(folder / name)), timeout=60, env={"OMP_NUM_THREADS": str(os.cpu_count())})


for _key in _KEYS:
    register(
        Check(
            id=f"ffmpeg.guide-{_key.replace('_', '-').lower()}",
            component="ffmpeg",
            level="full",
            title=f"guide: {_key.replace('_', ' ')}",
            expects="The command of NVIDIA's FFmpeg guide runs, and makes the streams that it should.",
            mends="Read FFmpeg's own words: they are the evidence in what `--format json` or `--format html` writes.",
            function=partial(guide, _key),
            needs=("ffmpeg.compiled", "ffmpeg.nvdec"),
            limit_s=240,
        )
    )
