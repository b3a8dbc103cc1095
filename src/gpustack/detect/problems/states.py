"""Packages that dpkg or rpm left half-way: their state is reported separately and hides nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.parse.packages import Package
from gpustack.detect.problems import cures
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene

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
    by_state: dict[str, list[Package]] = {}
    for package in scene.packages:
        if package.state != "installed" and re.search(r"nvidia|cuda|cudnn|nvinfer|nccl", package.name):
            by_state.setdefault(package.state, []).append(package)
    for state, broken in by_state.items():
        names = ", ".join(f"{package.name} {package.version}" for package in broken[:4])
        built = any("dkms" in package.name for package in broken)
        if state == "half-installed":
            fix = cures.reinstall(scene, broken)
        else:
            first = "first fix the module's build, which fails again otherwise; then " if built else ""
            fix = f"{first}`sudo dpkg --configure -a`"
        yield Finding(message=f"{names}: {_STATES.get(state, state)}", fix=fix, reboot=False)


@detects("detect-duplicate-rpms")
def duplicates(scene: Scene) -> Iterator[Finding]:
    """Packages that rpm has in two versions, which an interrupted transaction leaves."""
    versions: dict[tuple[str, str], list[str]] = {}
    for package in scene.packages:
        many = package.name.startswith(("kernel", "kmod-nvidia", "gpg-pubkey"))
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
