"""Systems on which a driver must not or cannot be installed in the usual way."""

from __future__ import annotations

from collections.abc import Iterator

from gpustack.detect.parse import driver
from gpustack.detect.problems import cures
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene
from gpustack.patterns import later

_MOST_NAMES = 6
"""The most packages that are named."""

_VIRTUAL_NAMES = later(r"\bGRID\b|\bvGPU\b|\b\w+-\d+[QCAB]\b")


@detects("eol_distro")
def end_of_life(scene: Scene) -> Iterator[Finding]:
    """A release past its end of life."""
    if scene.os.eol and scene.os.eol < scene.evidence.date:
        row = scene.matrix.system(scene.os.system)
        lts = row.lts if row is not None else ""
        kept = f"; long-term support lasts until {lts}" if lts > scene.evidence.date else ""
        yield Finding(
            message=f"{scene.os.called} reached its end of life on {scene.os.eol}{kept}",
            severity="info" if kept else "warn",
            fix="NVIDIA's newest releases may not be available for it; use a newer system release or a container",
        )


@detects("no_repo_for_distro")
def no_repository(scene: Scene) -> Iterator[Finding]:
    """A system without an NVIDIA repository."""
    if scene.system is not None and scene.system.no_repo:
        yield Finding(
            message=f"NVIDIA has no package repository for {scene.os.called}: {scene.system.no_repo}",
            fix="take that way: NVIDIA's packages cannot be installed there" if scene.system.is_read_only else "",
            severity="info",
        )


@detects("immutable_os")
def immutable(scene: Scene) -> Iterator[Finding]:
    """A system whose root is an image."""
    variant = scene.told.get("VARIANT_ID", "")
    if "/run/ostree-booted" in scene.evidence.marks or variant in {"coreos", "silverblue", "kinoite", "iot", "sericea"}:
        yield Finding(
            message=f"{scene.os.called} is an image-based system (ostree): plain package installs do not work"
        )


@detects("wsl_driver")
def wsl_driver(scene: Scene) -> Iterator[Finding]:
    """A Linux driver inside WSL."""
    if scene.environment != "wsl":
        return
    mine = scene.installed(driver.DRIVER_PACKAGES)
    if mine or driver.is_runfile(scene.evidence):
        what = f"{mine[0].name} {mine[0].version}" if mine else "a driver from a .run file"
        yield Finding(
            message=f"{what} is a Linux driver installed inside WSL: it overwrites the libraries that Windows "
            f"maps in; the driver "
            "belongs on Windows only",
            fix=f"{cures.remove(scene, mine) if mine else '`sudo nvidia-uninstall --silent`'}, then `wsl --shutdown` "
            f"on Windows, and install only the toolkit: {cures.plan('cuda')}",
            reboot=False,
        )


@detects("container_driver")
def container_driver(scene: Scene) -> Iterator[Finding]:
    """Driver packages inside a container."""
    pattern = (
        r"nvidia-driver-\d+.*|nvidia-open.*|cuda-drivers.*|nvidia-dkms.*|nvidia-kernel-.*|kmod-nvidia.*|"
        r"libnvidia-compute-\d+.*"
    )
    mine = scene.installed(pattern)
    if scene.environment == "container" and mine:
        yield Finding(
            message=f"{mine[0].name} {mine[0].version} is installed inside a container: the driver's libraries "
            f"come from the host",
            fix=f"{cures.remove(scene, mine)}; nvidia-container-toolkit provides the host's driver, with video "
            "in NVIDIA_DRIVER_CAPABILITIES for NVENC",
            reboot=False,
        )


@detects("vgpu_guest")
def vgpu_guest(scene: Scene) -> Iterator[Finding]:
    """A virtual GPU, whose driver is licensed and not in public repositories."""
    named = [gpu.name for gpu in scene.gpus if gpu.name and _VIRTUAL_NAMES.search(gpu.name)]
    if "/etc/nvidia/gridd.conf" in scene.evidence.marks or (named and scene.environment == "vm"):
        yield Finding(
            message=f"this is a vGPU guest ({named[0] if named else '/etc/nvidia/gridd.conf exists'})", severity="warn"
        )


@detects("vgpu_host_cc")
def vgpu_host(scene: Scene) -> Iterator[Finding]:
    """A vGPU host."""
    if "/usr/bin/nvidia-vgpu-mgr" in scene.evidence.marks or scene.installed(r"nvidia-vgpu-.*|NVIDIA-vGPU-.*"):
        yield Finding(message="this is a vGPU host: its driver is the vGPU manager's", severity="warn")


@detects("jetson")
def jetson(scene: Scene) -> Iterator[Finding]:
    """Server driver packages on a Jetson."""
    mine = scene.installed(r"cuda-drivers.*|nvidia-open.*|nvidia-driver-\d+.*|nvidia-dkms-.*|nvidia-fabricmanager.*")
    if scene.environment == "jetson" and mine:
        yield Finding(
            message=f"{mine[0].name} is a server driver package on a Jetson, whose driver comes with L4T (JetPack)",
            fix=f"{cures.remove(scene, mine)}; to change the driver, change the JetPack release",
        )


@detects("gds_secure_boot")
def gds_secure_boot(scene: Scene) -> Iterator[Finding]:
    """GPUDirect Storage under Secure Boot."""
    if scene.secure_boot and scene.installed(r"nvidia-gds.*|nvidia-fs.*"):
        yield Finding(
            message="GPUDirect Storage (nvidia-gds) is installed and Secure Boot is enabled: its module is not loaded"
        )


@detects("gds_order")
def gds_flavour(scene: Scene) -> Iterator[Finding]:
    """GPUDirect Storage with the proprietary module."""
    flavour = scene.module.flavour if scene.module is not None else None
    if flavour == "proprietary" and scene.installed(r"nvidia-gds.*|nvidia-fs.*"):
        yield Finding(
            message="GPUDirect Storage (nvidia-gds) needs the open kernel modules; the proprietary ones are installed"
        )


@detects("detect-reboot-pending")
def reboot_pending(scene: Scene) -> Iterator[Finding]:
    """The distribution's own mark of a pending reboot."""
    marks = ("/run/reboot-required", "/var/run/reboot-required")
    if scene.environment not in {"container", "chroot"} and any(scene.evidence.has(path) for path in marks):
        names = (scene.evidence.text("/run/reboot-required.pkgs", "/var/run/reboot-required.pkgs") or "").split()
        why = f" (for {', '.join(dict.fromkeys(names[:_MOST_NAMES]))})" if names else ""
        yield Finding(message=f"a reboot is pending{why}", fix="reboot", reboot=True, severity="info")


@detects("detect-own-channel")
def own_channel(scene: Scene) -> Iterator[Finding]:
    """DGX OS, whose own repository owns the driver."""
    if scene.os.system == "dgx-os":
        yield Finding(
            message="this is DGX OS: the driver comes from its own repository",
            fix="keep the driver and add only toolkits",
            severity="info",
        )
