"""Systems whose packages have modules for one kernel only."""

from __future__ import annotations

from collections.abc import Iterator

from gpustack.detect.problems import cures, kernels
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene

_OF_ONE_KERNEL = {"nvidia": "linux", "nvidia-open": "linux", "nvidia-lts": "linux-lts", "nvidia-open-lts": "linux-lts"}
"""Arch's packages of modules, and the kernel's package that each is for."""


@detects("detect-kernel-package")
def other_kernel(scene: Scene) -> Iterator[Finding]:
    """Modules for another kernel package than the one whose kernel runs."""
    package = cures.kernel_package(scene.kernel or "")
    mine = [one for one in scene.installed("|".join(_OF_ONE_KERNEL)) if one.manager == "pacman"]
    if not package or not mine or scene.environment in kernels.OWN_KERNEL or scene.installed(r"nvidia.*-dkms"):
        return
    if any(_OF_ONE_KERNEL[one.name] == package for one in mine) or kernels.has_module(scene, scene.kernel or ""):
        return
    name = f"{mine[0].name.removesuffix('-lts')}-dkms"
    yield Finding(
        message=f"the package {mine[0].name} has modules for the kernel of {_OF_ONE_KERNEL[mine[0].name]} only, and "
        f"{scene.kernel} of {package} runs: it has no nvidia module",
        fix=f"{cures.install(scene, [name, f'{package}-headers'])} builds the module for every kernel whose headers "
        "are installed; then reboot",
        severity="warn",
        reboot=True,
    )
