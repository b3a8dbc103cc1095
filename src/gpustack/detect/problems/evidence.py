"""Evidence that is missing, unreadable or invalid: the value is unknown, and this reports it."""

from __future__ import annotations

from collections.abc import Iterator

from gpustack.detect.parse import driver, pci
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.problems.releases import differ
from gpustack.detect.scene import Scene
from gpustack.model.nvml import DAMAGED, DAMAGED_FIX, SUBJECT, NvmlError
from gpustack.patterns import later

_OPTIONAL = ("/var/log/", "/sys/firmware/", "/root/", "/home/")
_DENIED = "Permission denied"
_NEWEST = "2900"
"""Above this begin the device ids of the newest families."""

_LXC = later(r"\bLXC\b|\blxc\.|\bIncus\b|\bLXD\b")
_BLOCKED = 17
_NOT_LOADED = 9
_DIFFERS = "version mismatch"
"""NVML's number for a device file that the operating system denies."""


@detects("detect-unreadable")
def unreadable(scene: Scene) -> Iterator[Finding]:
    """Files that exist but cannot be used, except logs and files that only root may read."""
    for fault in scene.evidence.faults:
        if fault.path.startswith(_OPTIONAL) or (fault.reason == _DENIED and scene.evidence.live):
            continue
        yield Finding(
            message=f"{fault.path} could not be read: it {fault.reason}"
            if fault.reason.startswith(("is ", "holds "))
            else f"{fault.path} could not be read: {fault.reason}",
            fix=f"check {fault.path}; everything that depends on it is treated as unknown",
            severity="warn",
        )


@detects("detect-os-unknown")
def os_unknown(scene: Scene) -> Iterator[Finding]:
    """An os-release that is missing or names no known system."""
    if not scene.told.get("ID"):
        if scene.evidence.excerpt:
            return
        yield Finding(
            message="the operating system is unknown: /etc/os-release is missing, unreadable or has no ID",
            fix="restore /etc/os-release, or describe the host with --os and --arch",
        )
    elif scene.system is None and scene.os.repo is None:
        yield Finding(
            message=f"unknown operating system release {scene.os.spelled!r}",
            fix="`gpustack matrix show systems` lists known systems; if it is derived from one, name that with --os",
            severity="info",
        )


@detects("detect-pci")
def pci_nonsense(scene: Scene) -> Iterator[Finding]:
    """NVIDIA functions on the bus with invalid ids."""
    for function in scene.functions:
        if function.device is None:
            yield Finding(
                message=f"the PCI device id of {function.bus_id} (vendor 10de) is unreadable or not a number",
                fix=f"compare with `lspci -nn -s {function.bus_id}`",
            )
        elif function.kind is None:
            yield Finding(
                message=f"the PCI class of {function.bus_id} (10de:{function.device}) is unreadable or not a number",
                fix=f"compare with `lspci -nn -s {function.bus_id}`",
            )


@detects("detect-unknown-gpu")
def unknown_gpu(scene: Scene) -> Iterator[Finding]:
    """GPUs with an id that the table does not contain."""
    for gpu in scene.gpus:
        digits = (gpu.pci_id or "").rpartition(":")[2]
        if not digits or scene.products.knows(digits):
            continue
        if digits > _NEWEST:
            age = "it is most likely newer than the facts, and would need the newest driver with open kernel modules"
        elif digits < scene.products.lowest():
            age = "it is older than everything in the facts"
        else:
            age = "the facts do not have it"
        yield Finding(
            message=f"the GPU {gpu.pci_id} at {gpu.bus_id} is not in the GPU table: {age}",
            fix="name it with --matrices, or describe the host with --gpu cc:X.Y",
        )


@detects("detect-module-versions")
def module_versions(scene: Scene) -> Iterator[Finding]:
    """Two files that should agree on the loaded module, but do not."""
    proc, sys = driver.module_versions(scene.evidence)
    if proc and sys and proc != sys:
        yield Finding(
            message=f"/proc/driver/nvidia/version says {proc} but /sys/module/nvidia/version says {sys}",
            fix="reboot, so that only one module is loaded",
            reboot=True,
        )
    for path in ("/proc/driver/nvidia/version", "/sys/module/nvidia/version"):
        text = scene.evidence.text(path)
        if text is not None and (proc if "proc" in path else sys) is None:
            yield Finding(message=f"{path} contains no valid driver version", fix=f"check {path}")


@detects("detect-nvml")
def nvml_error(scene: Scene) -> Iterator[Finding]:
    """NVML fails although the driver is loaded."""
    error = (scene.evidence.nvml or {}).get("error")
    if isinstance(error, str) and not (_DIFFERS in error and differ(scene)):
        row = next((row for row in scene.matrix.rows(SUBJECT, "nvml", NvmlError) if row.is_said(error)), None)
        inside = scene.environment == "container" and row is not None and row.code == _BLOCKED
        fix = row.fix if row else "check `dmesg | grep NVRM`; if the library differs from the loaded module, reboot"
        if DAMAGED in error:
            fix = DAMAGED_FIX
        elif _DIFFERS in error and scene.evidence.excerpt and _tells_of_lxc(scene):
            fix = (
                "in the LXC container install the driver's libraries in the release of the host's module (`cat "
                "/proc/driver/nvidia/version`; a .run file with --no-kernel-module), and hold them there: both move "
                "together"
            )
        yield Finding(
            message=f"the driver does not answer through NVML: {error}" + (f": {row.cause}" if row else ""),
            fix=f"{fix}; systemd-nspawn needs DeviceAllow=/dev/nvidia0 rw (and nvidiactl, nvidia-uvm)"
            if inside
            else fix,
            sources=scene.matrix.addresses(row.src) if row else (),
            follows=row is None or row.code == _NOT_LOADED,
        )


def _tells_of_lxc(scene: Scene) -> bool:
    """Whether a pasted text is about an LXC container, whose module is the one of its host."""
    return any(_LXC.search(text) for path, text in scene.evidence.files.items() if path.startswith("/root/"))


@detects("detect-version-file")
def version_file(scene: Scene) -> Iterator[Finding]:
    """A toolkit whose version file has another shape."""
    for kit in scene.toolkits:
        if kit.broken:
            yield Finding(
                message=f"{kit.broken} does not contain the toolkit version; the folder name says {kit.folder}",
                fix=f"reinstall the toolkit of {kit.path}, or repair {kit.broken}",
                severity="warn",
            )
    if (
        scene.evidence.live
        and pci.BASE not in scene.evidence.listings
        and scene.environment not in {"container", "wsl"}
    ):
        yield Finding(message=f"{pci.BASE} does not exist: without a driver, GPUs cannot be detected", severity="info")
