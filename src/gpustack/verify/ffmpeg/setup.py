"""The FFmpeg that is tested and where: which programs are here, which GPU, which driver."""

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
from gpustack.verify.ffmpeg.programs import Place, Program, choose, describe, introduce, places
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.commands import evidence_of
from gpustack.verify.frame.pythons import package_folders, search_path

if TYPE_CHECKING:
    from gpustack.verify.ffmpeg.diagnosis import Scene

INSTALL = "`gpustack install ffmpeg`"


def programs(context: Context) -> tuple[Program, ...]:
    """Every FFmpeg of this machine, asked once for all checks; () where the host is a saved snapshot."""
    runner = context.runner
    if runner is None:
        return ()

    return context.shared.once("ffmpeg programs", lambda: tuple(describe(one, runner) for one in _places(context)))


def named(context: Context) -> tuple[Program, ...]:
    """Every FFmpeg of this machine without its lists: the distribution's is told by its package and not run."""
    runner = context.runner
    if runner is None:
        return ()
    known = context.host.installed.get("ffmpeg")
    found: list[Program] = []
    for place in _places(context):
        if known is not None and known.version and known.method == "distro" and known.path == place.path:
            found.append(Program(place=place, about=About(word=known.version, version=known.version), is_run=False))
        else:
            found.append(introduce(place, runner))
    return tuple(found)


def is_of_use(context: Context) -> bool:
    """Whether what an FFmpeg can do matters: there is a GPU for it, or somebody asks for it by name."""
    return bool(context.host.gpus) or "ffmpeg" in context.asked or "ffmpeg" in context.given


def _places(context: Context) -> tuple[Place, ...]:
    given = context.given.get("ffmpeg")
    if given:
        # Checks run in folders of their own, where a path that is not whole leads elsewhere.
        path = Path(given)
        return (Place(path=str(path.absolute()) if path.exists() else given, origin="given", on_path=True),)
    return places(context.given.get("path") or os.environ.get("PATH", ""), pythons=_packages(context))


def _packages(context: Context) -> tuple[str, ...]:
    """Folders of Python packages: those of this Python, and of the one that is first on PATH."""
    known = context.shared.once("packages of python3", lambda: package_folders("python3"))
    found = search_path(context, "python3") if known is None else known
    return tuple(name for name in (*sys.path, *found) if name.endswith("-packages"))


def tested(context: Context) -> Program | None:
    """The FFmpeg that is tested."""
    return choose(programs(context))


def main_gpu(host: Host) -> Gpu | None:
    """The GPU that is tested: the first with an encoder, else the first of this host's own."""
    own = host_facts.own_gpus(host)
    return next((gpu for gpu in own if gpu.nvenc), None) or next(iter(own), None)


def chip(context: Context) -> Chip:
    """The video engines of the GPU that is tested: nothing is known of them where there is none."""
    gpu = main_gpu(context.host)
    return chip_of(context.matrix, gpu) if gpu else Chip(name="this GPU")


def gpu_environment(host: Host) -> dict[str, str]:
    """What makes FFmpeg see only the GPU that is tested, where there are several."""
    own = host_facts.own_gpus(host)
    gpu = main_gpu(host)
    if gpu is None or len(own) < 2 or os.environ.get("CUDA_VISIBLE_DEVICES"):
        return {}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": str(own.index(gpu))}


def scene(context: Context, program: Program) -> Scene:
    """Where a run of ``program`` takes place, for its diagnosis."""
    from gpustack.verify.ffmpeg.diagnosis import Scene  # noqa: PLC0415 (nothing of it is needed at level quick)

    host = context.host
    found = chip(context)
    driver = host_facts.driver_version(host)
    hidden = [copy.path for copy in host_facts.copies_of(host, "driver") if "libcuda.so" in copy.path and not copy.wins]
    seen = any(copy.wins for copy in host_facts.copies_of(host, "driver"))
    return Scene(
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
    """The failure of a run, with its cause in words."""
    if end.code is None:
        busy = "look for Xid lines in `sudo dmesg`, and with `top` for what keeps this machine busy; run it once more"
        return failed(f"{doing}: {end.error}", busy, evidence=evidence_of(end, work=context.work))
    from gpustack.verify.ffmpeg.diagnosis import diagnose  # noqa: PLC0415 (nothing of it is needed at level quick)

    told = diagnose(context.matrix, end.err + end.out, end.code, scene(context, program))
    return failed(
        f"{doing}: {told.cause}",
        told.cure,
        expected=told.needs,
        actual=told.has,
        evidence=evidence_of(end, work=context.work),
    )
