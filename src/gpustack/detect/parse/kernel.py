"""The kernel: the running one, the installed ones, and the one that boots next."""

from __future__ import annotations

import re

from gpustack.detect.evidence import Evidence
from gpustack.detect.parse.packages import Package
from gpustack.model.architectures import architecture as architecture_of
from gpustack.patterns import later

_RELEASE = later(r"\d+\.\d+[\w.+~-]{0,100}")
_IMAGE = later(r"(?:vmlinu[xz]|Image)-(\d.*)")
_DEB_IMAGE = later(r"linux-image-(?:unsigned-)?(\d.*)")
_RPM_KERNELS = {"kernel", "kernel-core", "kernel-default", "kernel-uek-core", "kernel-uek"}


def running_kernel(evidence: Evidence) -> str | None:
    """The release of the running kernel in the words of uname."""
    line = evidence.line("/proc/sys/kernel/osrelease")
    if line is None:
        match = re.match(r"Linux version (\S+)", evidence.text("/proc/version") or "")
        line = match[1] if match else None
    return line if line and _RELEASE.fullmatch(line) else None


def architecture(evidence: Evidence, packages: tuple[Package, ...], kernel: str | None) -> str | None:
    """The machine's architecture in the words of uname, from the kernel, the package database or the kernel's name."""
    for path in ("/proc/sys/kernel/arch", "/var/lib/dpkg/arch"):
        found = architecture_of(evidence.line(path))
        if found is not None:
            return found.name
    tail = re.split(r"[.-]", kernel)[-1] if kernel else ""
    if tail in {"64k", "generic", "default", "cloud"}:
        tail = ""
    for word in (tail, *(package.arch for package in packages)):
        found = architecture_of(word)
        if found is not None:
            return found.name
    for folder in evidence.listings:
        match = re.match(r"/usr/lib/(x86_64|aarch64)-linux-gnu", folder)
        if match:
            return match[1]
    return None


def kernel_key(release: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key for kernel releases, as boot loaders order them: numbers as numbers."""
    parts = re.findall(r"\d+|[a-z]+", release.lower())
    return tuple((1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts)


def installed_kernels(evidence: Evidence, packages: tuple[Package, ...]) -> tuple[str, ...]:
    """The installed kernels, newest last: images in /boot, else the package database, else /lib/modules."""
    images = [match[1] for name in evidence.listings.get("/boot", ()) if (match := _IMAGE.fullmatch(name))]
    found = {name for name in images if _RELEASE.fullmatch(name) and not name.endswith((".old", ".bak"))}
    if not found:
        found = {_from_package(package) for package in packages} - {""}
    if not found:
        found = {name for name in evidence.listings.get("/lib/modules", ()) if _RELEASE.fullmatch(name)}
    return tuple(sorted(found, key=kernel_key))


def _from_package(package: Package) -> str:
    match = _DEB_IMAGE.fullmatch(package.name)
    if match and package.manager == "dpkg" and re.search(r"-\w+$", match[1]):
        return match[1]
    if package.manager == "rpm" and package.name in _RPM_KERNELS:
        release = f"{package.version}.{package.arch}"
        return f"{package.version}-default" if package.name == "kernel-default" else release
    return ""


def next_kernel(evidence: Evidence, packages: tuple[Package, ...]) -> str | None:
    """The kernel that the boot loader starts next: its saved entry if that names one, else the newest installed.

    None if no installed kernel is visible.
    """
    known = installed_kernels(evidence, packages)
    saved = re.search(
        r"^saved_entry=(\S+)", evidence.text("/boot/grub2/grubenv", "/boot/grub/grubenv") or "", re.MULTILINE
    )
    if saved:
        named = [release for release in known if saved[1].endswith(release)]
        if named:
            return named[-1]
    if known:
        return known[-1]
    for path in ("/boot/vmlinuz", "/vmlinuz"):
        match = _IMAGE.fullmatch(evidence.links.get(path, "").rpartition("/")[2])
        if match:
            return match[1]
    return None


def compiler_of_kernel(evidence: Evidence) -> str | None:
    """The gcc version that built the running kernel, from /proc/version."""
    match = re.search(r"\(?gcc[^)]*?\s(\d+\.\d+\.\d+)", (evidence.text("/proc/version") or "")[:1000])
    return match[1] if match else None


def compiler_name(evidence: Evidence) -> str:
    """What built the running kernel, by /proc/version: gcc, or clang where only clang is named; "" unknown."""
    text = (evidence.text("/proc/version") or "")[:1000]
    return next((name for name in ("gcc", "clang") if f"{name} " in text or f"{name}-" in text), "")


def loaded_modules(evidence: Evidence) -> tuple[str, ...]:
    """The names of the loaded modules."""
    lines = (evidence.text("/proc/modules") or "").splitlines()
    return tuple(line.split(maxsplit=1)[0] for line in lines if line.strip())
