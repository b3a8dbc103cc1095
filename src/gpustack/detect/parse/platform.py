"""The kind of machine: bare metal, virtual, container, WSL, Jetson; Secure Boot; pending reboots."""

from __future__ import annotations

import binascii
import re

from gpustack.detect.evidence import Evidence
from gpustack.detect.probes import NAMES
from gpustack.model.host import Environment
from gpustack.patterns import later

_VM_WORDS = (
    "qemu", "kvm", "vmware", "virtualbox", "innotek", "xen", "bochs", "amazon ec2", "google compute engine",
    "openstack",
    "alibaba cloud", "nutanix", "parallels", "bhyve", "rhev", "proxmox", "firecracker", "virtual machine",
    "standard pc",
    "cloud hypervisor",
)  # fmt: skip
_SECURE_BOOT = later(r".*/efivars/SecureBoot-")
_TEGRA = later(r"nvidia,(tegra\d+)")
_L4T = later(r"#\s*R(\d+)\s*\(release\),\s*REVISION:\s*([\d.]+)")


def environment(evidence: Evidence, kernel: str | None) -> Environment | None:
    """The kind of machine; None if unknown. A tree without a kernel's files is a ``chroot``."""
    special: tuple[tuple[Environment, bool], ...] = (
        ("wsl", is_wsl(evidence, kernel)),
        ("jetson", is_jetson(evidence, kernel)),
        ("container", is_container(evidence)),
    )
    found = next((name for name, holds in special if holds), None)
    if found is not None:
        return found
    if kernel is None and not evidence.has("/proc/modules") and "/sys/bus/pci/devices" not in evidence.listings:
        return None if evidence.live or evidence.excerpt else "chroot"
    product = " ".join(
        evidence.line(path) or "" for path in ("/sys/class/dmi/id/sys_vendor", "/sys/class/dmi/id/product_name")
    ).lower()
    if "amazon ec2" in product and "metal" in product:
        return "bare-metal"
    if any(word in product for word in _VM_WORDS) or evidence.line("/sys/hypervisor/type"):
        return "vm"
    return "bare-metal"


def is_wsl(evidence: Evidence, kernel: str | None) -> bool:
    """Whether this is the Windows Subsystem for Linux, by the kernel's name or files mapped by Windows."""
    version = evidence.text("/proc/version") or ""
    return (
        "microsoft" in (kernel or "").lower()
        or "microsoft-standard" in version.lower()
        or evidence.has("/proc/sys/fs/binfmt_misc/WSLInterop")
        or "/usr/lib/wsl/lib" in evidence.marks
        or "/dev/dxg" in evidence.marks
    )


def is_jetson(evidence: Evidence, kernel: str | None) -> bool:
    """Whether this is a Jetson: its release file, its kernel's name, or its device tree."""
    return (
        evidence.has("/etc/nv_tegra_release")
        or bool(kernel and re.search(r"-tegra(?:-|$)", kernel))
        or _TEGRA.search(evidence.text("/proc/device-tree/compatible") or "") is not None
    )


def l4t_release(evidence: Evidence) -> str | None:
    """The L4T release of a Jetson: "36.4.3"."""
    match = _L4T.search(evidence.text("/etc/nv_tegra_release") or "")
    return f"{match[1]}.{match[2]}" if match else None


def tegra_chip(evidence: Evidence) -> str | None:
    """The chip by the device tree: "tegra234"."""
    match = _TEGRA.search(evidence.text("/proc/device-tree/compatible") or "")
    return match[1] if match else None


def is_container(evidence: Evidence) -> bool:
    """Whether this is a container, by the files of container engines."""
    groups = evidence.text("/proc/1/cgroup") or ""
    return (
        evidence.has("/.dockerenv")
        or evidence.has("/run/.containerenv")
        or bool(container_kind(evidence))
        or re.search(r"/(?:docker|kubepods|lxc|containerd)[/-]", groups) is not None
    )


def container_kind(evidence: Evidence) -> str:
    """The kind of container by its engine's own word (lxc, podman, oci), "" without one."""
    environ = (evidence.text("/proc/1/environ") or "").splitlines()
    told = (line.partition("=")[2] for line in environ if line.startswith("container="))
    return next(told, evidence.environ.get("container") or "")


def secure_boot(evidence: Evidence) -> bool | None:
    """Whether Secure Boot is on, by the firmware's variable (four bytes of attributes, one of value)."""
    for path, content in evidence.blobs.items():
        if _SECURE_BOOT.match(path):
            try:
                data = binascii.a2b_base64(content)
            except ValueError:
                return None
            return data[4] == 1 if len(data) >= 5 else None
    state = evidence.output("mokutil --sb-state") or ""
    if "SecureBoot enabled" in state:
        return True
    return False if "SecureBoot disabled" in state else None


_HOST_NAME = later(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")


def host_name(evidence: Evidence) -> str:
    """What the machine calls itself; "" if it does not say, or says what is no name."""
    found = evidence.line(*NAMES) or ""
    return found if _HOST_NAME.fullmatch(found) else ""


def reboot_pending(evidence: Evidence, kernel: str | None, next_kernel: str | None) -> bool | None:
    """Whether a reboot is pending: the distribution's mark, or another kernel that boots next."""
    if any(evidence.has(path) for path in ("/run/reboot-required", "/var/run/reboot-required")):
        return True
    if kernel is None or next_kernel is None:
        return None
    return kernel != next_kernel
