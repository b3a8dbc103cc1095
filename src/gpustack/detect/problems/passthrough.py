"""GPUs that are meant for virtual machines: whole ones that the host's driver holds, and vGPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.parse import settings
from gpustack.detect.parse.pci import BASE, guest_addresses
from gpustack.detect.problems.kernels import FOR_GUESTS, initramfs_command
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene
from gpustack.patterns import later
from gpustack.versions import is_within

_VFIO = "vfio-pci"
_ID = later(r"10de:[0-9a-f]{4}")
_HIDDEN = later(r"^(?:options\s+)?(?:xen-)?pciback[.\s]hide=(\S+)")
_AT = later(r"\(((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d)\)")
_NO_MDEV = ">=8.9"
"""Compute capabilities of the chips whose vGPU manager has no mediated devices (Ada and later)."""


@detects("detect-vfio-not-bound")
def not_bound(scene: Scene) -> Iterator[Finding]:
    """GPUs that are set aside for vfio-pci or Xen's guests, and which another driver holds."""
    wanted = set_aside(scene)
    for gpu in scene.gpus:
        path = next((wanted[one] for one in (gpu.pci_id, gpu.bus_id) if one in wanted), None)
        if path is None or gpu.bound is None or gpu.bound in FOR_GUESTS:
            continue
        taker = _VFIO if gpu.pci_id in wanted else "xen-pciback"
        yield Finding(
            message=f"{path} sets {gpu.pci_id if taker == _VFIO else gpu.bus_id} ({gpu.called}) aside for {taker}, but "
            f"it is bound to {gpu.bound}: no virtual machine can have it",
            fix=f"`echo 'softdep {gpu.bound} pre: {taker}' | sudo tee /etc/modprobe.d/vfio-softdep.conf` loads "
            f"{taker} first; then rebuild the initramfs (`{initramfs_command(scene)}`) and reboot",
            severity="warn",
            reboot=True,
        )


def set_aside(scene: Scene) -> dict[str, str]:
    """The ids that vfio-pci is to take, and the addresses that Xen hides, with the file that says so."""
    found = {
        one: path
        for path, line in settings.modprobe_lines(scene.evidence)
        if re.match(r"options\s+vfio[-_]pci\s", line)
        for one in _ID.findall(line.lower())
    }
    for word in settings.command_line(scene.evidence):
        if re.match(r"vfio[-_]pci\.ids=", word):
            found |= dict.fromkeys(_ID.findall(word.lower()), "/proc/cmdline")
    lines = [*settings.modprobe_lines(scene.evidence)]
    lines += [("/proc/cmdline", word) for word in settings.command_line(scene.evidence)]
    hidden = [(path, match[1]) for path, line in lines if (match := _HIDDEN.search(line))]
    return found | {
        one if one.count(":") > 1 else f"0000:{one}": path for path, told in hidden for one in _AT.findall(told)
    }


@detects("detect-vfio-group")
def group(scene: Scene) -> Iterator[Finding]:
    """Functions of a board that is handed to virtual machines, which the host still holds."""
    slots = {str(gpu.bus_id).rpartition(".")[0]: gpu for gpu in scene.gpus if gpu.bound == _VFIO}
    for function in scene.functions:
        gpu = slots.get(function.bus_id.rpartition(".")[0])
        if gpu is not None and function.bound not in {None, _VFIO, "pcieport"}:
            yield Finding(
                message=f"{function.bus_id}, another function of {gpu.called}, is bound to {function.bound}, not to "
                "vfio-pci: the virtual machine does not start (group is not viable)",
                fix=f"add 10de:{function.device} to the ids of vfio-pci in /etc/modprobe.d, rebuild the initramfs "
                f"(`{initramfs_command(scene)}`) and reboot; until then "
                f"`echo {_VFIO} | sudo tee {BASE}/{function.bus_id}/driver_override`, and unbind it from "
                f"{function.bound}",
                severity="warn",
                reboot=True,
            )


@detects("detect-vgpu-without-mdev")
def no_mediated_devices(scene: Scene) -> Iterator[Finding]:
    """A vGPU host whose GPUs have virtual functions in place of mediated devices."""
    if "/usr/bin/nvidia-vgpu-mgr" not in scene.evidence.marks or "/sys/class/mdev_bus" in scene.evidence.marks:
        return
    for gpu in scene.gpus:
        if gpu.compute_capability and is_within(gpu.compute_capability, _NO_MDEV):
            functions = scene.evidence.line(f"{BASE}/{gpu.bus_id}/sriov_numvfs")
            enable = f"`sudo /usr/lib/nvidia/sriov-manage -e {gpu.bus_id}`"
            off = " and they are not enabled" if functions == "0" else ""
            yield Finding(
                message=f"the vGPUs of {gpu.called} are SR-IOV virtual functions{off}: there are no mediated devices "
                "(/sys/class/mdev_bus), so tools that create vGPUs by mdev find none",
                fix=f"{enable} creates the virtual functions; then write a type's number from "
                "nvidia/creatable_vgpu_types of a virtual function into its nvidia/current_vgpu_type",
                severity="warn" if functions == "0" else "info",
                reboot=False,
            )


@detects("detect-lxc-devices")
def container_devices(scene: Scene) -> Iterator[Finding]:
    """LXC containers whose rules allow other major numbers than the driver's devices have."""
    numbers = re.findall(r"(?m)^ *(\d+) (nvidia\S*)$", scene.evidence.text("/proc/devices") or "")
    wanted = [(number, name) for number, name in numbers if name in {"nvidia-uvm", "nvidiactl", "nvidia"}]
    for path, text in sorted(scene.evidence.files.items()):
        if not path.startswith("/etc/pve/lxc/") or "/dev/nvidia" not in text:
            continue
        allowed = re.findall(r"(?m)^lxc\.cgroup2?\.devices\.allow[:=] *c (\d+):", text)
        lacking = [(number, name) for number, name in wanted if number not in allowed]
        if allowed and lacking:
            number, name = lacking[0]
            yield Finding(
                message=f"{path} does not allow the major number {number} of {name}, which this kernel gave it "
                f"(allowed: {', '.join(dict.fromkeys(allowed))}): CUDA does not start in that container",
                fix=f"add `lxc.cgroup2.devices.allow: c {number}:* rwm` to {path}, or pass the devices with dev0: "
                "/dev/nvidia-uvm, which follows the number; then start the container again",
                severity="warn",
                reboot=False,
            )


@detects("detect-guest-device")
def guest_devices(scene: Scene) -> Iterator[Finding]:
    """Virtual machines that are handed a device which is not there, or a GPU without an IOMMU."""
    here = {function.bus_id.rpartition(".")[0] for function in scene.functions}
    for path, text in sorted(scene.evidence.files.items()):
        asked = guest_addresses(path, text)
        gone = [one for one in asked if scene.evidence.marks.get(f"{BASE}/{one}.0") == "missing"]
        if gone and here:
            yield Finding(
                message=f"{path} hands the device at {gone[0]}.0 to a virtual machine, and nothing is at that address; "
                f"NVIDIA's devices are at {', '.join(sorted(here))}: addresses change with slots, cards and firmware",
                fix=f"write the address of today (`lspci -D`) to {path}",
                severity="warn",
                reboot=False,
            )
        elif here & set(asked) and not _has_iommu(scene):
            yield Finding(
                message=f"{path} hands a GPU to a virtual machine, and the IOMMU is off: the machine does not start",
                fix="switch VT-d or AMD-Vi on in the firmware settings, add intel_iommu=on (Intel, older kernels) to "
                "the kernel's command line and reboot",
                severity="warn",
                reboot=True,
            )
            return


def _has_iommu(scene: Scene) -> bool:
    """Whether this kernel groups devices by an IOMMU; True where nothing tells."""
    files = [path for path in scene.evidence.files if path.startswith(f"{BASE}/")]
    return any(path.endswith("/iommu_group/type") for path in files) or not any(
        path.endswith("/resource") for path in files
    )
