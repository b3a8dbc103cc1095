"""The commands that fix a state on this host, ready to type; every name in them is quoted."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from gpustack.detect.parse.packages import Package
from gpustack.detect.scene import Scene

_MANAGERS: dict[str | None, str] = {"apt": "apt-get", "dnf": "dnf", "yum": "yum", "tdnf": "tdnf", "zypper": "zypper"}
_AWAY = {"apt-get": "purge", "rpm-ostree": "uninstall", "pacman": "-R"}
_AGAIN = {"apt-get": ("install", "--reinstall"), "zypper": ("install", "--force"), "pacman": ("-S",)}
_ARCH_KERNELS = {"zen", "lts", "hardened", "rt", "cachyos"}
_LOCKS: dict[str | None, tuple[str, ...]] = {
    "apt": ("apt-mark", "unhold"), "dnf": ("dnf", "versionlock", "delete"), "yum": ("yum", "versionlock", "delete"),
    "zypper": ("zypper", "removelock"),
}  # fmt: skip


def is_image(scene: Scene) -> bool:
    """Whether rpm-ostree composes this system, so that packages are layered on it."""
    return "/run/ostree-booted" in scene.evidence.marks and scene.os.family != "apt"


def _tool(scene: Scene) -> str:
    """The program that installs packages here, "" if it is unknown."""
    return "rpm-ostree" if is_image(scene) else _manager(scene)


def _manager(scene: Scene) -> str:
    """The package manager of the system, without regard to images; "" if it is unknown."""
    is_arch = scene.system is not None and scene.system.manager == "pacman"
    return "pacman" if is_arch else _MANAGERS.get(scene.os.family, "")


def command(*words: str) -> str:
    """A command for root, in backquotes."""
    return f"`sudo {shlex.join(words)}`"


def plan(*words: str) -> str:
    """The plan that fixes it, in backquotes."""
    return f"`gpustack plan {shlex.join(words)}`"


def source_of(scene: Scene, *words: str) -> str:
    """Where a part comes from: its plan, or for the driver of a system of images the way that such a system has."""
    system = scene.system
    if words == ("driver",) and system is not None and system.is_read_only and system.no_repo:
        return f"it comes with the system's image ({scene.os.called}: {system.no_repo})"
    return f"{plan(*words)} installs it"


def remove(scene: Scene, packages: Iterable[Package]) -> str:
    """The command that removes these packages, with their configuration if the manager can."""
    tool = _tool(scene)
    return _with_names(tool, (_AWAY.get(tool, "remove"),), packages, "remove")


def reinstall(scene: Scene, packages: Iterable[Package]) -> str:
    """The command that restores the files of these packages."""
    tool = _manager(scene)
    return _with_names(tool, _AGAIN.get(tool, ("reinstall",)), packages, "reinstall")


def unlock(scene: Scene, names: Iterable[str]) -> str:
    """The command that removes the locks on these names, "" if locks are lines of files."""
    words = _LOCKS.get(scene.os.family)
    return command(*words, *names) if words else ""


def drop_sources(scene: Scene, paths: Iterable[str]) -> str:
    """The commands that remove NVIDIA's entries: whole files with nothing else, and lines in others."""
    mixed: list[str] = []
    own: list[str] = []
    for path in paths:
        others = any(one.path == path and not one.is_nvidia for one in scene.sources)
        (mixed if others or path == "/etc/apt/sources.list" else own).append(path)
    cures = [command("rm", "-f", "--", *own)] if own else []
    lines = [path for path in mixed if path.endswith(".list")]
    cures += [command("sed", "-i", "/nvidia/s/^deb/# deb/", *lines)] if lines else []
    cures += [f"switch off NVIDIA's entry in {path}" for path in mixed if path not in lines]
    return ", ".join(cures)


def install(scene: Scene, names: Iterable[str]) -> str:
    """The command that installs packages."""
    tool = _tool(scene)
    if tool == "pacman":
        # Without -u pacman would mix the package with older ones.
        return command("pacman", "-Syu", *names)
    return command(tool, "install", *names) if tool else f"install {' and '.join(names)}"


_PROGRAMS = (
    (r"libnvidia-compute-(\d+(?:-server)?)", r"nvidia-utils-\1"),
    (r"xorg-x11-drv-nvidia((?:-\d+xx)?)", r"xorg-x11-drv-nvidia\1-cuda"),
    (r"nvidia-driver(?:-libs|-cuda-libs)", "nvidia-driver-cuda"),
    (r"nvidia-compute-(G\d+)", r"nvidia-compute-utils-\1"),
    (r"nvidia((?:-\d+xx)?)-dkms|nvidia(?:-open|-lts)?", r"nvidia\1-utils"),
    (r"libcuda1|nvidia-kernel-dkms", "nvidia-smi"),
)
"""Packages of the driver, and the package of the same builder that has nvidia-smi."""


def programs(scene: Scene) -> str:
    """The command that installs the driver's programs next to the parts of it that are here, "" if none tells."""
    here = [package for package in scene.packages if package.installed]
    for pattern, name in _PROGRAMS:
        for package in here:
            found = re.fullmatch(pattern, package.name)
            if found is not None and (package.manager != "pacman" or name.endswith("-utils")):
                return install(scene, [found.expand(name)])
    return ""


def module_option(option: str, file: str, rebuild: str) -> str:
    """The commands that set an option of a kernel module, and apply it."""
    write = f"`echo {shlex.quote(f'options {option}')} | sudo tee /etc/modprobe.d/{file}.conf`"
    again = f", rebuild the initramfs (`{rebuild}`)" if rebuild else ""
    return f"{write}{again} and reboot"


def kernel_argument(scene: Scene, argument: str) -> str:
    """How the kernel's command line gets another word on this system."""
    if is_image(scene):
        return f"{command('rpm-ostree', 'kargs', f'--append-if-missing={argument}')} and reboot"
    if scene.os.family in {"dnf", "yum"}:
        return f"{command('grubby', '--update-kernel=ALL', f'--args={argument}')} and reboot"
    other = "2" if scene.os.family == "zypper" else ""
    build = "`sudo update-grub`"
    if scene.os.family != "apt":
        build = f"`sudo grub{other}-mkconfig -o /boot/grub{other}/grub.cfg`"
    return f"add {argument} to GRUB_CMDLINE_LINUX in /etc/default/grub, then {build} and reboot"


def headers(scene: Scene, kernel: str) -> str:
    """The command that installs the headers of a kernel, "" if their name differs within the family."""
    release = kernel.removesuffix("-default")
    if _tool(scene) == "pacman":
        return install(scene, [f"{kernel_package(kernel)}-headers"]) if kernel_package(kernel) else ""
    void = re.fullmatch(r"(\d+\.\d+)\.\d+_\d+", kernel)
    if void:
        return command("xbps-install", f"linux{void[1]}-headers")
    names: dict[str | None, str] = {
        "apt": f"linux-headers-{kernel}",
        "dnf": f"kernel-devel-{kernel}",
        "yum": f"kernel-devel-{kernel}",
        "zypper": f"kernel-default-devel={release}" if release != kernel else "",
    }
    # Amazon's later kernels have their own package names.
    name = "" if scene.os.id == "amzn" else names.get(scene.os.family, "")
    return command(_tool(scene), "install", name) if name else ""


def kernel_package(kernel: str) -> str:
    """The package of Arch and its derivatives that has this kernel, "" if its name does not tell."""
    last = kernel.rpartition("-")[2]
    if re.search(r"-arch\d+-\d+$", kernel):
        return "linux"
    return f"linux-{last}" if last in _ARCH_KERNELS else ""


def _with_names(tool: str, words: tuple[str, ...], packages: Iterable[Package], verb: str) -> str:
    """The command for these packages; ``verb`` and their names where no manager is known."""
    names = tuple(dict.fromkeys(package.name for package in packages))
    return command(tool, *words, *names) if tool else f"{verb} {' and '.join(names)}"
