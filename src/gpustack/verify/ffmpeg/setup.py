"""The FFmpeg under test and its surroundings: the installed programs, the GPU, the driver."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack.model.host import Gpu, Host
from gpustack.system.run import Finished
from gpustack.verify.declare import Context, Outcome, failed
from gpustack.verify.ffmpeg.engines import Chip, chip_of, session_limit
from gpustack.verify.ffmpeg.lists import About
from gpustack.verify.ffmpeg.programs import Location, Program, choose_program, describe, find_places, identify
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.commands import evidence_of
from gpustack.verify.frame.pythons import package_folders, search_path

if TYPE_CHECKING:
    from gpustack.verify.ffmpeg.causes import Setup

INSTALL = "`gpustack install ffmpeg`"


def describe_programs(context: Context) -> tuple[Program, ...]:
    """Every FFmpeg of this machine, described once for all checks; () where the host is a saved snapshot."""
    runner = context.runner
    if runner is None:
        return ()

    return context.shared.once("ffmpeg programs", lambda: tuple(describe(one, runner) for one in _places(context)))


def identify_programs(context: Context) -> tuple[Program, ...]:
    """Every FFmpeg of this machine without its lists; the distribution's is known by its package and not run."""
    runner = context.runner
    if runner is None:
        return ()
    known = context.host.installed.get("ffmpeg")
    found: list[Program] = []
    for place in _places(context):
        if known is not None and known.version and known.method == "distro" and known.path == place.path:
            found.append(Program(place=place, about=About(word=known.version, version=known.version), is_run=False))
        else:
            found.append(identify(place, runner))
    return tuple(found)


def is_relevant(context: Context) -> bool:
    """Whether the capabilities of FFmpeg matter: the host has a GPU, or FFmpeg was requested by name."""
    return bool(context.host.gpus) or "ffmpeg" in context.asked or "ffmpeg" in context.given


def _places(context: Context) -> tuple[Location, ...]:
    given = context.given.get("ffmpeg")
    if given:
        # Checks run in folders of their own, where a relative path leads elsewhere.
        path = Path(given)
        return (Location(path=str(path.absolute()) if path.exists() else given, origin="given", on_path=True),)
    return find_places(context.given.get("path") or os.environ.get("PATH", ""), pythons=_packages(context))


def _packages(context: Context) -> tuple[str, ...]:
    """Folders of Python packages: those of this Python, and of the one that is first on PATH."""
    known = context.shared.once("packages of python3", lambda: package_folders("python3"))
    found = search_path(context, "python3") if known is None else known
    return tuple(name for name in (*sys.path, *found) if name.endswith("-packages"))


def program_under_test(context: Context) -> Program | None:
    """The FFmpeg under test."""
    return choose_program(describe_programs(context))


def main_gpu(host: Host) -> Gpu | None:
    """The GPU under test: the first with an encoder, else the first that this host uses itself."""
    own = host_facts.own_gpus(host)
    return next((gpu for gpu in own if gpu.nvenc), None) or next(iter(own), None)


def chip_under_test(context: Context) -> Chip:
    """The video engines of the GPU under test; unknown where the host has no GPU."""
    gpu = main_gpu(context.host)
    return chip_of(context.matrix, gpu) if gpu else Chip(name="this GPU")


def gpu_environment(host: Host) -> dict[str, str]:
    """The variables that select the GPU under test, where the host has several."""
    own = host_facts.own_gpus(host)
    gpu = main_gpu(host)
    if gpu is None or len(own) < 2 or os.environ.get("CUDA_VISIBLE_DEVICES"):
        return {}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": str(own.index(gpu))}


def setup_of(context: Context, program: Program) -> Setup:
    """The surroundings of a run of ``program``, for its diagnosis."""
    from gpustack.verify.ffmpeg.causes import Setup  # noqa: PLC0415 (not needed at level quick)

    host = context.host
    found = chip_under_test(context)
    driver = host_facts.driver_version(host)
    hidden = [copy.path for copy in host_facts.copies_of(host, "driver") if "libcuda.so" in copy.path and not copy.wins]
    seen = any(copy.wins for copy in host_facts.copies_of(host, "driver"))
    return Setup(
        chip=found,
        driver=driver,
        system="windows" if host.os.family == "windows" else "linux",
        in_container=host.environment == "container",
        gpus=len(host_facts.own_gpus(host)),
        limit=session_limit(context.matrix, found, driver),
        hidden_libcuda="" if seen else next(iter(hidden), ""),
        about=program.about,
    )


def failure(context: Context, program: Program, end: Finished, doing: str) -> Outcome:
    """The failure of a run, with its cause."""
    if end.code is None:
        fix = "check `sudo dmesg` for Xid messages and `top` for other load, then retry"
        return failed(f"{doing}: {end.error}", fix, evidence=evidence_of(end, work=context.work))
    from gpustack.verify.ffmpeg.diagnosis import diagnose  # noqa: PLC0415 (not needed at level quick)

    found = diagnose(context.matrix, end.err + end.out, end.code, setup_of(context, program))
    return failed(
        f"{doing}: {found.cause}",
        found.fix,
        expected=found.needs,
        actual=found.has,
        evidence=evidence_of(end, work=context.work),
    )
