"""A GPU without any driver: no kernel module, no libraries, no packages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.parse import driver
from gpustack.detect.parse.pci import guest_addresses
from gpustack.detect.problems import cures, images, kernels, passthrough
from gpustack.detect.problems.engines import ROOTS
from gpustack.detect.problems.kernels import FOR_GUESTS, OWN_DRIVERS
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene
from gpustack.model.host import Gpu

_MACHINES = {"bare-metal", "vm"}
_ELSEWHERE = (*ROOTS, "/usr/bin/nvidia-vgpu-mgr", "/usr/bin/nvidia-smi", "/usr/bin/nvidia-uninstall")
"""Drivers in a root of their own, and programs of a driver."""


@detects("detect-no-driver")
def no_driver(scene: Scene) -> Iterator[Finding]:
    """GPUs for this machine's own programs, and nothing of a driver."""
    gpus = _own(scene)
    if not gpus or scene.environment not in _MACHINES or images.image_name(scene) or _has_part(scene):
        return
    if scene.evidence.excerpt:  # a text need not name the driver
        return
    gpu = gpus[0]
    more = f" and {len(gpus) - 1} more" if len(gpus) > 1 else ""
    held = f"; {gpu.bound} holds it, which has no CUDA" if gpu.bound in OWN_DRIVERS else ""
    last = f", from branch {gpu.driver_last}, the last for this GPU" if gpu.driver_last else ""
    yield Finding(
        message=f"no NVIDIA driver is installed for {gpu.called} at {gpu.bus_id}{more}: no kernel module, library or "
        f"package of one was found{held}",
        fix=f"{cures.plan('driver')} shows the steps{last}, and {_command('install', 'driver')} carries them out",
        severity="info",
        reboot=False,
    )


@detects("detect-no-module")
def no_module(scene: Scene) -> Iterator[Finding]:
    """Programs and libraries of a driver whose kernel module nothing here has or builds."""
    gpus = [gpu for gpu in _own(scene) if gpu.bound is None or gpu.bound in OWN_DRIVERS]
    mine = scene.installed(driver.DRIVER_PACKAGES)
    kernel = scene.kernel
    if (
        not gpus
        or not mine
        or scene.environment not in _MACHINES
        or images.image_name(scene)
        or kernel not in scene.evidence.listings.get("/lib/modules", ())
        or kernels.wants_module(scene)
        or kernels.has_module(scene, kernel)
        or any(scene.evidence.has(path) for path in ROOTS)
    ):
        return
    yield Finding(
        message=f"{mine[0].name} {mine[0].version} is installed, and no nvidia module for kernel {kernel}, nor a "
        "package that has or builds one: the driver cannot start",
        fix=f"{cures.plan('driver')} names the package of the module for this system and its kernel",
        severity="warn",
        reboot=None,
    )


def _command(*words: str) -> str:
    return f"`gpustack {' '.join(words)}`"


def _own(scene: Scene) -> list[Gpu]:
    """The GPUs on the bus that are not set aside for virtual machines."""
    wanted = passthrough.set_aside(scene)
    guests = {place for path, text in scene.evidence.files.items() for place in guest_addresses(path, text)}
    return [
        gpu
        for gpu in scene.gpus
        if gpu.bus_id
        and gpu.bound not in FOR_GUESTS
        and not {gpu.pci_id, gpu.bus_id} & wanted.keys()
        and gpu.bus_id.rpartition(".")[0] not in guests
    ]


def _has_part(scene: Scene) -> bool:
    """Whether anything of a driver is here: then other findings say what it lacks."""
    built = any(
        re.match(r"nvidia(?:-current)?\.ko|nvidia$", name)
        for folder, names in scene.evidence.listings.items()
        if folder.startswith(("/lib/modules/", "/usr/lib/modules/", "/var/lib/dkms"))
        for name in names
    )
    return (
        built
        or scene.module is not None
        or bool(scene.evidence.nvml)
        or any(re.fullmatch(driver.DRIVER_PACKAGES, package.name) for package in scene.packages)
        or any(scene.evidence.has(path) for path in _ELSEWHERE)
        or any(copy.component == "driver" for copy in scene.copies)
    )
