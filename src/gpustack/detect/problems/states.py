"""Packages that are incomplete: left half-way by dpkg or rpm, or without other packages that they need."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.parse.packages import Package
from gpustack.detect.problems import cures
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene
from gpustack.versions import is_within

_STATES = {
    "half-configured": "half-configured: its configuration began and failed, often with the module's build",
    "half-installed": "half-installed: its installation began and was not completed, so files are missing",
    "unpacked": "unpacked but not configured",
    "triggers-pending": "triggers pending: configured but for what other packages asked of it",
    "triggers-awaited": "waits for triggers of other packages",
}
"""What dpkg's states of a package mean, where it is not installed."""


@detects("detect-half-installed")
def half_installed(scene: Scene) -> Iterator[Finding]:
    """Packages that dpkg left half-way, by what it calls their state."""
    broken = left_halfway(scene)
    torn = [package for package in broken if package.state == "half-installed"]
    if torn:
        yield Finding(message=_states(torn), fix=cures.reinstall(scene, torn), reboot=False)
    waiting = [package for package in broken if package.state != "half-installed"]
    if waiting:
        built = any("dkms" in package.name for package in waiting)
        first = "first fix the module's build, which fails again otherwise; then " if built else ""
        yield Finding(message=_states(waiting), fix=f"{first}`sudo dpkg --configure -a`", reboot=False)


def left_halfway(scene: Scene) -> list[Package]:
    """The packages of the GPU stack that dpkg left half-way."""
    return [
        package
        for package in scene.packages
        if package.state != "installed" and re.search(r"nvidia|cuda|cudnn|nvinfer|nccl", package.name)
    ]


def _states(packages: list[Package]) -> str:
    """The packages of each state, and what the state means."""
    by_state: dict[str, list[str]] = {}
    for package in packages:
        by_state.setdefault(package.state, []).append(f"{package.name} {package.version}")
    return "; ".join(f"{', '.join(names[:4])}: {_STATES.get(state, state)}" for state, names in by_state.items())


@detects("detect-duplicate-rpms")
def duplicates(scene: Scene) -> Iterator[Finding]:
    """Packages that rpm has in two versions, which an interrupted transaction leaves."""
    versions: dict[tuple[str, str], list[str]] = {}
    for package in scene.packages:
        many = package.name.startswith(("kernel", "kmod-nvidia"))
        if package.manager == "rpm" and not many and re.search(r"nvidia|cuda|cudnn|nvinfer|nccl", package.name):
            versions.setdefault((package.name, package.arch), []).append(package.version)
    twice = {name: found for (name, _), found in versions.items() if len(set(found)) > 1}
    if twice:
        names = ", ".join(f"{name} {' and '.join(sorted(found))}" for name, found in list(twice.items())[:3])
        zypper = scene.os.family == "zypper"
        yield Finding(
            message=f"rpm has packages in two versions, as an interrupted transaction leaves them: {names}",
            fix="`sudo zypper verify`" if zypper else "`sudo dnf remove --duplicates`",
            reboot=False,
        )


@detects("detect-dcgm-parts")
def dcgm_parts(scene: Scene) -> Iterator[Finding]:
    """DCGM 4 without its part of profiling, or without the diagnostics of the driver's CUDA."""
    core = next(iter(scene.installed(r"datacenter-gpu-manager-4-core")), None)
    if core is None:
        return
    if not scene.installed(r"datacenter-gpu-manager-4-proprietary"):
        yield Finding(
            message=f"DCGM {core.upstream} is installed without datacenter-gpu-manager-4-proprietary, which holds its "
            "module of profiling: metrics DCGM_FI_PROF_* are missing",
            fix=f"{cures.install(scene, ['datacenter-gpu-manager-4-proprietary'])}, then "
            "`sudo systemctl restart nvidia-dcgm`",
            severity="info",
            reboot=False,
        )
    builds = [row for row in scene.matrix.rows("dcgm", "builds", dict) if _serves(scene, str(row["driver"]))]
    older = [row for row in builds[:-1] if scene.installed(rf"datacenter-gpu-manager-4-{row['role']}")]
    if older and not scene.installed(rf"datacenter-gpu-manager-4-{builds[-1]['role']}") and _is_modern(scene):
        yield Finding(
            message=f"DCGM's diagnostics are those for {older[-1]['role']}, and driver {scene.driver_version} takes "
            f"those for {builds[-1]['role']}: `dcgmi diag` fails",
            fix=f"{cures.plan('dcgm', '--upgrade', 'dcgm')} installs those",
            severity="info",
            reboot=False,
            sources=scene.matrix.addresses(builds[-1]["src"]),
        )


def _serves(scene: Scene, floor: str) -> bool:
    return scene.driver_version is not None and is_within(scene.driver_version, f">={floor}")


def _is_modern(scene: Scene) -> bool:
    """Whether CUDA 13 serves every GPU: with older ones the diagnostics for CUDA 12 are right under any driver."""
    return all(gpu.compute_capability and is_within(gpu.compute_capability, ">=7.5") for gpu in scene.gpus)
