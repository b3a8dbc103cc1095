"""Quick checks of FFmpeg: which programs are installed, what was compiled in, and whether the driver supports it."""

from __future__ import annotations

from gpustack.model.host import Host
from gpustack.verify.declare import Context, Outcome, check, failed, needless, passed, skipped
from gpustack.verify.ffmpeg.engines import chip_of
from gpustack.verify.ffmpeg.programs import choose_program
from gpustack.verify.ffmpeg.setup import INSTALL, describe_programs, identify_programs, is_relevant, program_under_test
from gpustack.verify.frame import host_facts
from gpustack.verify.nv_codec_headers.api import api_of_driver, api_of_headers, judge_api

_LISTED = 8


def _no_ffmpeg(context: Context) -> Outcome | None:
    """A skip where no FFmpeg was found, or none can be run."""
    if context.runner is None:
        if "ffmpeg" in context.host.installed:
            return skipped("the host is a saved snapshot: its FFmpeg cannot be run")
        return skipped("no FFmpeg was found", INSTALL)
    return None if program_under_test(context) else skipped("no FFmpeg was found", INSTALL)


@check(
    "ffmpeg.found",
    title="FFmpeg found",
    expects="FFmpeg is installed, and the program under test is known.",
    fix=INSTALL,
    limit_s=120,
)
def found(context: Context) -> Outcome:
    if context.runner is None:
        copies = host_facts.copies_of(context.host, "ffmpeg")
        if not copies and "ffmpeg" not in context.host.installed:
            return skipped("no FFmpeg was found", INSTALL)
        known = context.host.installed.get("ffmpeg")
        paths = ", ".join(copy.path for copy in copies)
        return passed(f"FFmpeg {known.version if known and known.version else 'of unknown version'}: {paths}")
    is_tested = is_relevant(context)
    all_here = describe_programs(context) if is_tested else identify_programs(context)
    if not all_here:
        return skipped("no FFmpeg was found", INSTALL)
    chosen = choose_program(all_here)
    broken = "; ".join(f"{one.path} does not run: {one.error}" for one in all_here if one.error)
    if chosen is None:
        return failed(broken, f"{INSTALL}, or remove the broken program")
    others = "; ".join(one.called for one in all_here if one is not chosen and not one.error)
    parts = [f"under test: {chosen.called}" if is_tested else f"{chosen.called}; not tested without an NVIDIA GPU"]
    parts += [f"also found: {others}"] if others else []
    parts += [broken] if broken else []
    return passed("; ".join(parts), actual=chosen.about.version or chosen.about.word)


@check(
    "ffmpeg.compiled",
    title="NVENC, NVDEC and CUDA filters compiled in",
    expects="FFmpeg was built with nv-codec-headers: it has encoders, decoders and filters for NVIDIA GPUs.",
    fix=INSTALL,
    needs=("ffmpeg.found",),
    limit_s=120,
)
def compiled(context: Context) -> Outcome:
    if context.runner is not None and not is_relevant(context):
        return needless("no NVIDIA GPU was found", "`gpustack verify ffmpeg` checks the build anyway")
    excused = _no_ffmpeg(context)
    program = None if excused else program_under_test(context)
    if excused or program is None:
        return excused or skipped("no FFmpeg was found", INSTALL)
    encoders = sorted(name for name in program.encoders if name.endswith("_nvenc"))
    decoders = sorted(name for name in program.decoders if name.endswith("_cuvid"))
    filters = sorted(name for name in program.filters if name.endswith(("_cuda", "_npp")))
    if not encoders and not decoders and "cuda" not in program.accelerations:
        other = next((one for one in describe_programs(context) if one.has_nvenc and not one.error), None)
        elsewhere = f"; {other.called} has them" if other else ""
        return failed(f"{program.called} was built without NVENC and NVDEC{elsewhere}", INSTALL)
    lacks = [
        said
        for said, there in (("no NVENC encoder", encoders), ("no cuvid decoder", decoders), ("no CUDA filter", filters))
        if not there
    ]
    lacks += [] if "cuda" in program.accelerations else ["no -hwaccel cuda"]
    detail = f"{program.path}: {_some(encoders)}; {_some(decoders)}; {_some(filters)}"
    return passed(f"{detail}; {', '.join(lacks)}" if lacks else detail, actual=", ".join(encoders))


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_LISTED])
    return f"{shown} and {len(names) - _LISTED} more" if len(names) > _LISTED else shown or "none"


def _no_use(host: Host) -> Outcome | None:
    return needless("no NVIDIA GPU was found") if not host.gpus else None


@check(
    "ffmpeg.driver",
    title="driver supports the NVENC API of the build",
    expects="The driver is new enough for the nv-codec-headers that this FFmpeg was built with.",
    fix="Install a newer driver (`gpustack install driver`), or an FFmpeg built with older nv-codec-headers.",
    needs=("ffmpeg.found", "driver.version"),
    unless=(_no_use, host_facts.not_counted),
    limit_s=120,
)
def driver(context: Context) -> Outcome:
    excused = _no_ffmpeg(context)
    program = program_under_test(context)
    if excused or program is None:
        return excused or skipped("no FFmpeg was found", INSTALL)
    if not program.has_nvenc:
        return needless(f"{program.path} has no NVENC encoder, so no NVENC API is required")
    headers = context.host.installed.get("nv-codec-headers")
    known = api_of_headers(headers.version) if headers and headers.version and program.place.origin != "wheel" else ""
    api = program.api or known
    if not api:
        return skipped(f"the nv-codec-headers that {program.path} was built with could not be determined")
    number = host_facts.driver_version(context.host)
    if number is None:
        return host_facts.no_driver(context.host)
    offers = api_of_driver(context.matrix, number)
    older = f"use an FFmpeg built with nv-codec-headers {offers} or older" if offers else ""
    outcome = judge_api(context, api, program.path, number, older)
    has_encoder = any(chip_of(context.matrix, gpu).nvenc != 0 for gpu in host_facts.own_gpus(context.host))
    if outcome.status == "fail" and not has_encoder:
        return passed(f"{outcome.reason}. This host is not affected: no GPU has NVENC, and NVDEC does not require it")
    return outcome
