"""The NVIDIA driver: the loaded module, the libraries, the packages, and their origin."""

from __future__ import annotations

import re
from typing import Literal

from gpustack.detect.evidence import Evidence
from gpustack.detect.parse.packages import Package, matching
from gpustack.model.host import KernelModule
from gpustack.patterns import later

DRIVER_VERSION = r"\d{2,3}\.\d{1,3}(?:\.\d{1,3})?"
_PROC = later(rf"Kernel Module(?: for \S+)?\s+({DRIVER_VERSION})(?:\s|$)")
DRIVER_PACKAGES = (
    r"nvidia-driver(?:-\d+)?(?:-server)?(?:-open)?|nvidia-open(?:-\d+)?|cuda-drivers(?:-\d+)?|nvidia-headless-.*|"
    r"nvidia-(?:kernel-)?dkms(?:-.*)?|nvidia-kernel-(?:open-dkms|source)(?:-.*)?|nvidia-dkms-\d+.*|libnvidia-compute(?:-.*)?|"
    r"nvidia-utils(?:-.*)?|nvidia-compute-utils(?:-.*)?|libcuda1|nvidia-driver-(?:cuda|libs|cuda-libs|bin|common)|"
    r"kmod-nvidia.*|akmod-nvidia.*|xorg-x11-drv-nvidia.*|nvidia-x11-drv.*|linux-modules-nvidia-.*|nvidia-compute-G0\d|"
    r"nvidia-(?:open-)?driver-G0\d.*|nvidia-driver-libs|nvidia-compute|nvidia-kernel-open-dkms|cuda-open(?:-hwe)?|"
    r"nvidia(?:\d{3})?(?:-open)?(?:-lts|-dkms|-libs)?|nvidia-kernel|nvidia-\d+xx-(?:dkms|utils)|opencl-nvidia|nvidia-drivers|"
    r"linux(?:-cachyos[a-z-]*|\d+)-nvidia(?:-open)?|nvidia-kmod-common"
)
"""Packages of the driver, of every distribution known here."""

ROLLING_MODULES = (
    r"nvidia(?:\d{3})?(?:-open)?(?:-lts|-dkms)?|nvidia-kernel|nvidia-\d+xx-dkms|"
    r"linux(?:-cachyos[a-z-]*|\d+)-nvidia(?:-open)?"
)
"""Packages of Arch, its derivatives, Void and Slackware with modules or their sources."""

_LIBRARY_PACKAGES = (
    r"libnvidia-compute(?:-\d+)?(?:-server)?|libcuda1|nvidia-driver-(?:cuda-libs|libs)|nvidia-compute-G0\d|"
    r"xorg-x11-drv-nvidia-cuda-libs|nvidia-x11-drv-libs|nvidia-compute|nvidia-(?:\d+xx-)?utils|nvidia-drivers"
)
RUNFILE_MARKS = ("/usr/bin/nvidia-uninstall", "/var/lib/nvidia/log")
ORIGIN_METHODS = {"nvidia": "network"}
"""The methods of other builders' packages; all others are the distribution's (method ``distro``)."""


def module_versions(evidence: Evidence) -> tuple[str | None, str | None]:
    """The loaded module's version in /proc/driver/nvidia/version and in /sys/module/nvidia/version."""
    match = _PROC.search(evidence.text("/proc/driver/nvidia/version") or "")
    line = evidence.line("/sys/module/nvidia/version")
    return match[1] if match else None, line if line and re.fullmatch(DRIVER_VERSION, line) else None


def kernel_module(evidence: Evidence, packages: tuple[Package, ...], modules: tuple[str, ...]) -> KernelModule | None:
    """The driver's kernel module, loaded or installed; None without any trace of one."""
    proc, sys = module_versions(evidence)
    loaded = proc is not None or sys is not None or "nvidia" in modules
    version = proc or sys
    if version is None:
        told = (evidence.output("modinfo -F version nvidia") or "").strip()
        version = told if re.fullmatch(DRIVER_VERSION, told) else _packaged_module(packages)
    flavour = _flavour(evidence, packages)
    if version is None and not loaded:
        return None
    signer = (evidence.output("modinfo -F signer nvidia") or "").strip()
    return KernelModule(version=version, flavour=flavour, loaded=loaded, signer=signer or None)


def _packaged_module(packages: tuple[Package, ...]) -> str | None:
    pattern = (
        r"nvidia-dkms-\d+.*|nvidia-kernel-(?:open-)?dkms|kmod-nvidia.*|akmod-nvidia.*|nvidia-(?:open-)?driver-G0\d.*|"
        + ROLLING_MODULES
    )
    return next((v for p in matching(packages, pattern) if (v := driver_version(p))), None)


def driver_version(package: Package) -> str | None:
    """The driver version in a package's version, if it contains one."""
    match = re.match(rf"({DRIVER_VERSION})(?![\d.])", package.upstream)
    return match[1] if match else None


def _flavour(evidence: Evidence, packages: tuple[Package, ...]) -> Literal["open", "proprietary"] | None:
    text = evidence.text("/proc/driver/nvidia/version") or ""
    if "Kernel Module" in text:
        return "open" if "Open Kernel Module" in text else "proprietary"
    license_text = evidence.output("modinfo -F license nvidia") or ""
    if license_text.strip():
        return "proprietary" if license_text.strip() == "NVIDIA" else "open"
    pattern = (
        r"nvidia-dkms-.*|nvidia-kernel-.*|kmod-nvidia.*|linux-modules-nvidia-.*|"
        r"nvidia-(?:open-)?driver-G0\d.*|nvidia-open.*"
    )
    names = {package.name for package in matching(packages, pattern)}
    flavours = {"open" if "open" in name else "proprietary" for name in names}
    return "open" if flavours == {"open"} else "proprietary" if flavours == {"proprietary"} else None


def is_runfile(evidence: Evidence) -> bool:
    """Whether a .run installer left its marks."""
    return any(path in evidence.marks for path in RUNFILE_MARKS)


def package_version(packages: tuple[Package, ...]) -> str | None:
    """The driver version of its library packages, else of any driver package."""
    for pattern in (_LIBRARY_PACKAGES, DRIVER_PACKAGES):
        versions = [v for package in matching(packages, pattern) if (v := driver_version(package))]
        if versions:
            return max(versions, key=lambda text: tuple(map(int, text.split("."))))
    return None


def origins(packages: tuple[Package, ...]) -> dict[str, tuple[Package, ...]]:
    """The driver packages by builder; those of unknown origin under ""."""
    found: dict[str, tuple[Package, ...]] = {}
    for package in matching(packages, DRIVER_PACKAGES):
        found[package.origin] = (*found.get(package.origin, ()), package)
    return found
