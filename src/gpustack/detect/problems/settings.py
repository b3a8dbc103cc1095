"""Options of the kernel and of the driver's modules that keep the driver away, are not in effect, or break suspend."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.parse import pci, settings
from gpustack.detect.problems import cures
from gpustack.detect.problems.kernels import initramfs_command
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene
from gpustack.patterns import later

_NO_MODULES = {"container", "wsl", "jetson", "chroot"}
_SERVICE = "nvidia-suspend.service"
_BLACKLISTS = ("modprobe.blacklist=", "rd.driver.blacklist=", "module_blacklist=")
_KEEPS_AWAY = later(r"blacklist\s+nvidia\s*$|alias\s+nvidia\s+off\b|install\s+nvidia\s+/(?:usr/)?bin/(?:false|true)\b")


@detects("detect-blacklisted")
def blacklisted(scene: Scene) -> Iterator[Finding]:
    """A module that is kept from being loaded."""
    if (
        scene.environment in _NO_MODULES
        or scene.driver_is_loaded
        or not scene.gpus
        or any(gpu.bound for gpu in scene.gpus)
    ):
        return
    rebuild = initramfs_command(scene)
    for path, line in settings.modprobe_lines(scene.evidence):
        if _KEEPS_AWAY.match(line):
            by_tool = (
                "`sudo prime-select nvidia` (or on-demand) takes it away; otherwise "
                if "blacklist-nvidia" in path
                else ""
            )
            yield Finding(
                message=f"{path} keeps the module nvidia from being loaded: {line}",
                fix=f"{by_tool}take that line out, then rebuild the initramfs (`{rebuild}`) and reboot",
                severity="warn",
                reboot=True,
            )
            return
    for word in settings.command_line(scene.evidence):
        if word.startswith(_BLACKLISTS) and "nvidia" in word.partition("=")[2].split(","):
            yield Finding(
                message=f"the kernel's command line keeps the module nvidia from being loaded: {word}",
                fix=f"take {word} off the kernel's command line and reboot",
                severity="warn",
                reboot=True,
            )


@detects("detect-kernel-options")
def kernel_options(scene: Scene) -> Iterator[Finding]:
    """Words of the kernel's command line that work against GPUs."""
    words = settings.command_line(scene.evidence)
    if scene.environment in _NO_MODULES or not scene.gpus:
        return
    for word in words:
        if word.startswith("pcie_acs_override="):
            yield Finding(
                message=f"the kernel's command line has {word}: IOMMU groups look apart although their devices can "
                "reach each other's memory",
                fix=f"take {word} off, unless GPUs are handed to virtual machines that you trust",
                severity="warn",
                reboot=True,
            )
        elif word in {"pci=nomsi", "acpi=off", "noapic"}:
            yield Finding(
                message=f"the kernel's command line has {word}: GPUs cannot raise the interrupts that the driver needs",
                fix=f"take {word} off the kernel's command line and reboot",
                severity="warn",
                reboot=True,
            )
        elif word == "nomodeset":
            yield Finding(
                message="the kernel's command line has nomodeset: CUDA works, displays stay in the firmware's mode",
                fix="take nomodeset off where a display is attached to the GPU",
                severity="info",
                reboot=True,
            )


@detects("detect-module-options")
def module_options(scene: Scene) -> Iterator[Finding]:
    """Options of the modules that are set but not in effect."""
    module = scene.module
    if scene.environment in _NO_MODULES or module is None or not module.loaded:
        return
    rebuild = f"rebuild the initramfs (`{initramfs_command(scene)}`) and reboot"
    params = settings.params(scene.evidence)
    for (name, option), (value, path) in settings.module_options(scene.evidence).items():
        actual = params.get(option.removeprefix("NVreg_")) if name == "nvidia" else None
        if name != "nvidia":
            actual = scene.evidence.line(f"/sys/module/{name}/parameters/{option}")
        if option == "NVreg_EnableGpuFirmware" and settings.same_value(value, "0") and module.flavour == "open":
            yield Finding(
                message=f"{path} sets {option}={value}, which the open kernel modules do not follow: they always use"
                " the system processor (GSP)",
                fix=f"{cures.plan('driver', '--kernel-module', 'proprietary')} where the GPU allows it, or take the"
                " option out",
                severity="warn",
            )
        elif actual is not None and not settings.same_value(actual, value):
            yield Finding(
                message=f"{path} sets {name} {option}={value}, but the loaded module has {actual}: it is not in effect",
                fix=f"modules are loaded from the initramfs, or were before the file changed: {rebuild}",
                severity="warn",
                reboot=True,
            )


@detects("detect-suspend")
def suspend(scene: Scene) -> Iterator[Finding]:
    """Video memory that is to be kept over suspend, without the services that keep it."""
    params = settings.params(scene.evidence)
    is_board = any(gpu.kind != "datacenter" for gpu in scene.gpus)
    is_kept = params.get("PreserveVideoMemoryAllocations") == "1" and params.get("UseKernelSuspendNotifiers") != "1"
    if scene.environment != "bare-metal" or not is_kept or not is_board or scene.evidence.excerpt:
        return
    marks = scene.evidence.marks
    places = ("/usr/lib/systemd/system", "/lib/systemd/system", "/etc/systemd/system/systemd-suspend.service.wants")
    if any(f"{place}/{_SERVICE}" in marks for place in places):
        return  # another detector checks whether it is enabled
    yield Finding(
        message=f"PreserveVideoMemoryAllocations is set, and {_SERVICE} is not installed: suspend fails, or the GPU is"
        " lost after it",
        fix=f"install the driver package with {_SERVICE}, or set NVreg_PreserveVideoMemoryAllocations=0",
        severity="warn",
        reboot=False,
    )


@detects("detect-xorg-busid")
def bus_id(scene: Scene) -> Iterator[Finding]:
    """A device of X's configuration that names no GPU of this machine."""
    places = {pci.x_address(gpu.bus_id) for gpu in scene.gpus if gpu.bus_id}
    for path, text in sorted(scene.evidence.files.items()):
        if not path.startswith("/etc/X11/") or not re.search(r'(?im)^\s*Driver\s+"nvidia"', text):
            continue
        named = re.findall(r'(?im)^\s*BusID\s+"([^"]+)"', text)
        if places and named and not places & {one.strip() for one in named}:
            yield Finding(
                message=f"{path} has BusID {named[0]}, where this machine has no NVIDIA GPU: X finds no screens",
                fix=f"set BusID to {min(places)} there (its numbers are decimal, those of lspci hexadecimal), or"
                " remove the line",
                severity="warn",
                reboot=False,
            )
