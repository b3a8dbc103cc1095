"""What checks read from a host, and the conditions under which many of them are skipped."""

from __future__ import annotations

import re

from gpustack.model.host import Copy, Gpu, Host
from gpustack.verify.declare import Outcome, needless, skipped

_UPSTREAM = re.compile(r"(?:\d+:)?(\d+(?:\.\d+)*)")
FOREIGN_MODULES = ("nouveau", "nova", "nova_core", "nova_drm")
"""The kernel's own modules for NVIDIA GPUs. One that holds a GPU keeps NVIDIA's module away from it."""

_INITRAMFS = {
    "apt": "sudo update-initramfs -u",
    "dnf": "sudo dracut --force",
    "yum": "sudo dracut --force",
    "tdnf": "sudo dracut --force",
    "zypper": "sudo dracut --force",
}


def upstream(text: str | None) -> str | None:
    """The vendor's numbers of a package version ("580.95.05-0ubuntu1" is 580.95.05); None without any."""
    match = _UPSTREAM.match(text or "")
    return match[1] if match else None


def name_of(gpu: Gpu) -> str:
    """A GPU's name with its address on the bus."""
    called = gpu.called
    return f"{called} ({gpu.bus_id})" if gpu.bus_id else called


def names_of(gpus: tuple[Gpu, ...]) -> str:
    return ", ".join(name_of(gpu) for gpu in gpus)


def own_gpus(host: Host) -> tuple[Gpu, ...]:
    """The GPUs that this host uses itself: not those passed through to virtual machines."""
    return tuple(gpu for gpu in host.gpus if gpu.bound != "vfio-pci")


def no_gpu(host: Host) -> Outcome | None:
    """A skip when this host has no GPU of its own."""
    if not host.gpus:
        return skipped("no NVIDIA GPU was found")
    if not own_gpus(host):
        return needless("every GPU is passed through to virtual machines (bound to vfio-pci)")
    return None


def has_gpu(host: Host) -> Outcome | None:
    """A skip for what is done only where no program can be run on a GPU."""
    return needless("there is a GPU: other checks run such programs on it") if own_gpus(host) else None


def foreign_driver(host: Host) -> Outcome | None:
    """A skip where this host does not run a Linux driver that it manages itself."""
    if host.environment == "jetson":
        return needless("on Jetson the driver is part of Jetson Linux")
    if host.environment == "wsl":
        return needless("WSL uses the Windows driver; do not install a Linux driver in WSL")
    if host.os.family == "windows":
        return needless("Windows does not use NVIDIA's Linux kernel module")
    if host.environment == "chroot":
        return skipped("this is a directory tree, not a running system")
    return None


def not_counted(host: Host) -> Outcome | None:
    """A skip where driver versions are not those of Linux drivers, which the GPU tables list."""
    if host.environment == "jetson":
        return needless("Jetson Linux has driver versions of its own")
    if host.environment == "wsl" or host.os.family == "windows":
        return needless("Windows drivers have version numbers of their own; the GPU tables list Linux drivers")
    return None


def is_jetson(host: Host) -> Outcome | None:
    """A skip on Jetson boards, for checks that compare driver versions."""
    return not_counted(host) if host.environment == "jetson" else None


def in_container(host: Host) -> Outcome | None:
    """A skip for what is configured on the host of a container."""
    return needless("this is configured on the container's host") if host.environment == "container" else None


def no_driver(host: Host) -> Outcome:
    """The skip where no driver was found to compare with."""
    if host.environment == "container":
        return skipped("no NVIDIA driver is available in this container", "start it with `--gpus all`")
    return skipped("no driver was found", "`gpustack install driver`" if host.gpus else "")


def is_windows(host: Host) -> Outcome | None:
    """A skip on Windows, where the host compiler is Visual C++."""
    return skipped("the installed Visual C++ version is unknown") if host.os.family == "windows" else None


def copies_of(host: Host, component: str) -> tuple[Copy, ...]:
    """The known copies of a component's library, those on the loader's path first; headers are not among them."""
    return tuple(copy for copy in host.copies if copy.component == component and not copy.path.endswith(".h"))


def headers_of(host: Host, component: str) -> tuple[Copy, ...]:
    """The copies of a component's header whose version is known."""
    mine = (copy for copy in host.copies if copy.component == component and copy.path.endswith(".h"))
    return tuple(copy for copy in mine if copy.version)


def loaded_copies(host: Host, component: str) -> tuple[Copy, ...]:
    """The copies that the loader uses: one for each soname, as libcudnn.so.8 and .9 can be installed together."""
    return tuple(copy for copy in copies_of(host, component) if copy.wins)


def compat_library(host: Host) -> Copy | None:
    """The libcuda of CUDA's forward compatibility package, where it is the one that programs load."""
    order = [copy for copy in host.copies if copy.component in {"driver", "cuda-compat"} and copy.wins]
    return order[0] if order and order[0].component == "cuda-compat" else None


def module_version(host: Host) -> str | None:
    """The version of the loaded kernel module."""
    return upstream(host.module.version) if host.module and host.module.loaded else None


def driver_library(host: Host) -> Copy | None:
    """The libcuda that programs load, or else any whose version is known; forward compatibility libraries aside."""
    mine = copies_of(host, "driver")
    order = (*(copy for copy in mine if copy.wins), *mine)
    return next((copy for copy in order if copy.version), None)


def package_version(host: Host) -> str | None:
    """The version of the installed driver packages."""
    found = host.installed.get("driver")
    return upstream(found.packaged) if found else None


def driver_version(host: Host) -> str | None:
    """The driver that programs use: the loaded module's version, else the library's, else the installed one."""
    library = driver_library(host)
    found = host.installed.get("driver")
    library_version = upstream(library.version) if library else None
    return module_version(host) or library_version or (upstream(found.version) if found else None)


def installed_version(host: Host, component: str) -> str | None:
    """The version of an installed component in the vendor's numbers."""
    found = host.installed.get(component)
    return upstream(found.version) if found else None


def rebuild_initramfs(host: Host) -> str:
    """The command that rebuilds the initial ramdisk on this system."""
    return _INITRAMFS.get(host.os.family or "", "rebuild the initial ramdisk")


def describe_copy(copy: Copy) -> str:
    """A copy with its version and, if known, the package that owns it, for a sentence."""
    owner = f", from {copy.owner}" if copy.owner else ""
    return f"{copy.path} ({copy.version or 'version unknown'}{owner})"
