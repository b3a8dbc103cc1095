"""The kernel: what holds the GPU, what boots next, headers, compilers, Secure Boot."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.parse import driver
from gpustack.detect.parse.builds import failed_builds
from gpustack.detect.parse.kernel import compiler_of_kernel
from gpustack.detect.problems import builds, cures
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene
from gpustack.model.facts import Rule
from gpustack.versions import version_key

FOREIGN = ("nouveau", "nova", "nova_core", "nova_drm")
"""The kernel's own modules that can claim an NVIDIA GPU."""

OWN_DRIVERS = {*FOREIGN, "NovaCore"}
"""The names under which they hold one."""

FOR_GUESTS = {"vfio-pci", "pci-stub", "xen-pciback", "pciback"}
"""Drivers that hold a device for virtual machines."""

_HIDDEN = ("rd.driver.blacklist", "modprobe.blacklist")
"""Words of the kernel's command line that keep modules away, in the initramfs and after it."""

OWN_KERNEL = {"container", "wsl", "jetson", "chroot"}
BUILT_PACKAGES = (
    r"nvidia-dkms-.*|nvidia-kernel-(?:open-)?dkms|kmod-nvidia.*dkms|akmod-nvidia.*|dkms-nvidia|nvidia-kernel-source.*|"
    r"nvidia(?:-open)?-dkms|nvidia-\d+xx-dkms"
)
_INITRAMFS = {
    "update-initramfs": "sudo update-initramfs -u -k all", "dracut": "sudo dracut --force --regenerate-all",
    "mkinitcpio": "sudo mkinitcpio -P", "mkinitrd": "sudo mkinitrd", "nixos": "sudo nixos-rebuild boot",
}  # fmt: skip
_BY_FAMILY: dict[str | None, str] = {
    "apt": "update-initramfs",
    "dnf": "dracut",
    "yum": "dracut",
    "tdnf": "dracut",
    "zypper": "dracut",
}
_BY_SYSTEM: dict[str | None, str] = {"gentoo": "dracut", "void": "dracut", "nixos": "nixos"}
"""For systems without packages of NVIDIA's."""


_UNKNOWN = f"{_INITRAMFS['update-initramfs']}` or `{_INITRAMFS['dracut']}"
"""Within the marks of a command, where the system is not known."""


def initramfs_command(scene: Scene) -> str:
    """The command that rebuilds this system's initramfs."""
    if cures.is_image(scene):
        return "sudo rpm-ostree initramfs --enable"
    word = (scene.system.initramfs if scene.system is not None else "") or _BY_FAMILY.get(scene.os.family, "")
    return _INITRAMFS.get(word or _BY_SYSTEM.get(scene.os.id, ""), _UNKNOWN)


def _blacklisted(scene: Scene, module: str) -> str | None:
    """The modprobe file that blacklists a module."""
    pattern = re.compile(
        rf"^[ \t]*(?:blacklist[ \t]+{module}\b|install[ \t]+{module}[ \t]+/(?:usr/)?bin/(?:false|true))", re.MULTILINE
    )
    files = [path for path in sorted(scene.evidence.files) if "/modprobe.d/" in path]
    return next((path for path in files if pattern.search(scene.evidence.files[path])), None)


@detects("nouveau_loaded")
def foreign_module(scene: Scene) -> Iterator[Finding]:
    """Nouveau or nova holds a GPU, or is loaded."""
    bound = {gpu.bound.replace("NovaCore", "nova_core"): gpu for gpu in scene.gpus if gpu.bound}
    holders = [name for name in bound if name in FOREIGN]
    loaded = [name for name in scene.modules if name in FOREIGN]
    if scene.evidence.has("/sys/module/nouveau/version"):
        loaded.append("nouveau")
    names = tuple(dict.fromkeys((*holders, *loaded)))
    if not names or scene.environment in {"container", "wsl"}:
        return
    name = names[0]
    rebuild = initramfs_command(scene)
    if holders:
        gpu = bound[holders[0]]
        what = f"{name} holds {gpu.called} at {gpu.bus_id}: the NVIDIA driver cannot take the GPU"
    else:
        what = f"the kernel module {name} is loaded; it competes with the NVIDIA driver for the GPU"
    file = _blacklisted(scene, name)
    if file is not None:
        what += f". {file} blacklists it already, so the initramfs was not rebuilt since"
    files = f"blacklist {', '.join(FOREIGN)} in /etc/modprobe.d, then " if file is None else ""
    fix = f"{files}rebuild the initramfs (`{rebuild}`) and reboot"
    if cures.is_image(scene):
        words = (f"--append-if-missing={place}={','.join(FOREIGN)}" for place in _HIDDEN)
        fix = f"{cures.command('rpm-ostree', 'kargs', *words)} and reboot"
    yield Finding(message=what, fix=fix, reboot=True)


@detects("other_vfio")
def vfio(scene: Scene) -> Iterator[Finding]:
    """GPUs passed through to virtual machines."""
    for gpu in scene.gpus:
        if gpu.bound in FOR_GUESTS:
            yield Finding(
                message=f"{gpu.called} at {gpu.bus_id} is bound to {gpu.bound}: it is reserved for virtual machines",
                severity="info",
            )


def has_module(scene: Scene, kernel: str) -> bool:
    dkms = any(
        kernel in names
        for folder, names in scene.evidence.listings.items()
        if re.match(rf"/var/lib/dkms/{builds.DRIVER_MODULE}/", folder)
    )
    prebuilt = scene.installed(rf"linux-modules-nvidia-\d+.*-{re.escape(kernel)}")
    return builds.has_file(scene, kernel) or dkms or bool(prebuilt)


def _runs(scene: Scene, kernel: str) -> bool:
    return kernel == scene.kernel and scene.driver_is_loaded


def wants_module(scene: Scene) -> bool:
    """Whether this host has or builds a module of its own, or runs one."""
    return scene.environment not in OWN_KERNEL and bool(
        scene.installed(f"{BUILT_PACKAGES}|linux-modules-nvidia-.*|kmod-nvidia.*|{driver.ROLLING_MODULES}")
        or "/usr/bin/nvidia-uninstall" in scene.evidence.marks
        or any(re.match(rf"/var/lib/dkms/{builds.DRIVER_MODULE}/\d", folder) for folder in scene.evidence.listings)
        or scene.driver_is_loaded
    )


@detects("detect-next-kernel-module")
def next_kernel_without_module(scene: Scene) -> Iterator[Finding]:
    """The kernel that boots next has no driver module: predicted before the reboot."""
    kernel = scene.next_kernel or (scene.kernel if scene.evidence.excerpt else None)
    kernels = scene.evidence.listings.get("/lib/modules", ())
    built = any(re.match(rf"/var/lib/dkms/{builds.DRIVER_MODULE}/", folder) for folder in scene.evidence.listings)
    seen = built or kernel in kernels or scene.kernel in kernels
    if kernel is None or not wants_module(scene) or not (seen or _is_missed(scene, kernel)):
        return
    seen_running = scene.kernel is not None and has_module(scene, scene.kernel)
    if has_module(scene, kernel) or _runs(scene, kernel):
        return
    if kernel == scene.kernel and any(log.kernel == kernel for log in builds.told(scene)):
        return
    if kernel == scene.kernel:
        start = "reboot" if cures.is_image(scene) else "`sudo modprobe nvidia`"
        yield Finding(
            message=f"the running kernel {kernel} has no nvidia module: the driver's module was not built or "
            "installed for it",
            fix=f"{_cure(scene, kernel)}, then {start}",
        )
    elif seen_running or scene.module is not None:
        yield Finding(
            message=f"kernel {kernel} boots next and has no nvidia module "
            f"(the running {scene.kernel or 'one'} has one): "
            "the driver will be gone after the reboot",
            fix=f"before rebooting: {_cure(scene, kernel)}",
            reboot=False,
        )


def _is_missed(scene: Scene, kernel: str) -> bool:
    """Whether a text, which lists no folders, has modprobe's word that a kernel has no module."""
    words = f"Module nvidia not found in directory /lib/modules/{kernel}"
    return scene.evidence.excerpt and any(words in text for text in scene.evidence.files.values())


def _cure(scene: Scene, kernel: str) -> str:
    """How the driver's module gets there for a kernel: what failed once fails again."""
    if _ceiling(scene, kernel) is not None:
        return f"{cures.plan('driver')} chooses a driver that builds on {kernel}, which this one does not"
    log = next((log for log in failed_builds(scene.evidence) if log.kernel == kernel and log.error), None)
    again = builds.rebuild(scene, kernel)
    return f"put right first what its build reports ({log.path}); {again}" if log is not None else again


@detects("detect-kernel-replaced")
def modules_gone(scene: Scene) -> Iterator[Finding]:
    """The running kernel's modules were removed: its package was upgraded since the boot, as on Arch Linux."""
    kernels = [name for name in scene.evidence.listings.get("/lib/modules", ()) if re.match(r"\d+\.\d+", name)]
    if scene.kernel is None or not kernels or scene.kernel in kernels or scene.environment in OWN_KERNEL:
        return
    newest = max(kernels, key=version_key)
    is_loaded = scene.driver_is_loaded
    yield Finding(
        message=f"kernel {scene.kernel} runs, and /lib/modules has no folder of it any more, only {newest}: the kernel "
        "was upgraded since the boot, and "
        + ("nvidia_uvm cannot be loaded if it is not yet" if is_loaded else "the nvidia module cannot be loaded"),
        fix=f"reboot into {newest}"
        + ("" if has_module(scene, newest) else "; the driver's module has to be built for it"),
        severity="info" if is_loaded else "warn",
        reboot=True,
    )


@detects("headers_missing")
def headers(scene: Scene) -> Iterator[Finding]:
    """Modules built here require the headers of the running and the next kernel."""
    if scene.environment in OWN_KERNEL or not scene.installed(BUILT_PACKAGES):
        return
    kernels = scene.evidence.listings.get("/lib/modules", ())
    for kernel in dict.fromkeys((scene.kernel, scene.next_kernel)):
        if kernel not in kernels or f"/lib/modules/{kernel}/build" in _present(scene):
            continue
        role = "boots next" if kernel != scene.kernel else "is running"
        yield Finding(
            message=f"kernel {kernel} {role} and its headers are not installed, so the driver's module cannot be "
            f"built for it",
            fix=f"{builds.headers(scene, kernel)}; if they are no longer in the archive, upgrade the kernel and "
            "reboot first",
        )


def _present(scene: Scene) -> set[str]:
    return {path for path, mark in scene.evidence.marks.items() if mark == "there"}


@detects("running_kernel_old")
def running_old(scene: Scene) -> Iterator[Finding]:
    """Another kernel boots next."""
    if (
        scene.environment in OWN_KERNEL
        or not scene.kernel
        or not scene.next_kernel
        or scene.kernel == scene.next_kernel
    ):
        return
    lost = has_module(scene, scene.kernel) and not has_module(scene, scene.next_kernel)
    yield Finding(
        message=f"kernel {scene.kernel} is running but {scene.next_kernel} boots next",
        fix=f"before the reboot, which ends without a driver otherwise: {_cure(scene, scene.next_kernel)}"
        if lost
        else "reboot before a driver is installed, so that the module is built for the right kernel",
        reboot=not lost,
        severity="info",
    )


@detects("kernel_too_new")
def kernel_too_new(scene: Scene) -> Iterator[Finding]:
    """A kernel with which this driver is known to fail, or for which dkms did not finish."""
    version = scene.driver_version or _registered(scene)
    if scene.environment in OWN_KERNEL:
        return
    for kernel in dict.fromkeys((scene.kernel, scene.next_kernel)):
        # A distribution patches the modules it ships: if there is a module for a kernel, it was built.
        if kernel is None or has_module(scene, kernel) or _runs(scene, kernel):
            continue
        rule = _ceiling(scene, kernel)
        if rule is not None:
            yield Finding(
                message=f"driver {version} does not build on kernel {kernel}: {rule.says}",
                fix=f"{cures.plan('driver')} chooses a driver for this kernel, or boot an older kernel",
            )
    for kernel, version in _unbuilt(scene):
        rule = builds.ceiling(scene, version, kernel)
        if rule is not None:
            yield Finding(
                message=f"dkms did not build driver {version} for kernel {kernel}: {rule.says}",
                fix=f"{cures.plan('driver')} chooses a driver for this kernel, or boot an older kernel",
            )
    logs = {log.path for log in failed_builds(scene.evidence)}
    for folder, names in scene.evidence.listings.items():
        match = re.fullmatch(rf"/var/lib/dkms/{builds.DRIVER_MODULE}/([\d.]+)", folder)
        kernel = scene.next_kernel
        if match and kernel and "build" in names and kernel not in names and f"{folder}/build/make.log" not in logs:
            yield Finding(
                message=f"dkms has not finished nvidia {match[1]} for kernel {kernel}; its build folder still exists",
                fix=builds.rebuild(scene, kernel),
            )


def _unbuilt(scene: Scene) -> set[tuple[str, str]]:
    """The kernel for which dkms did not build a release of the driver, and that, by its last lines in a text."""
    text = scene.evidence.pasted
    kernels = set(re.findall(r"Bad return status for module build on kernel: (\S+)", text))
    versions = set(re.findall(rf"(?:\b{builds.DRIVER_MODULE}/|-m nvidia -v )(\d{{3}}\.[\d.]*\d)\b", text))
    is_judged = any(log.error for log in failed_builds(scene.evidence))
    return set() if is_judged or len(kernels) != 1 or len(versions) != 1 else {(kernels.pop(), versions.pop())}


def _ceiling(scene: Scene, kernel: str) -> Rule | None:
    """The rule by which the driver of this host does not build on a kernel."""
    version = scene.driver_version or _registered(scene)
    return builds.ceiling(scene, version, kernel) if version is not None else None


def _registered(scene: Scene) -> str | None:
    """The newest driver that dkms has the sources of."""
    found = (re.match(rf"/var/lib/dkms/{builds.DRIVER_MODULE}/(\d[\d.]+)$", path) for path in scene.evidence.listings)
    return max((match[1] for match in found if match), key=version_key, default=None)


@detects("gcc_mismatch")
def gcc_differs(scene: Scene) -> Iterator[Finding]:
    """The compiler of the kernel differs from the one that would build the module."""
    built = compiler_of_kernel(scene.evidence)
    mine = scene.installed(r"gcc")
    if built is None or not mine or scene.environment in OWN_KERNEL or not scene.installed(BUILT_PACKAGES):
        return
    major, own = built.partition(".")[0], mine[0].upstream.partition(".")[0]
    if major != own and not scene.installed(rf"gcc-{major}"):
        yield Finding(
            message=f"the kernel was built with gcc {built}, the installed compiler is gcc {own}",
            fix=f"{cures.command('apt-get', 'install', f'gcc-{major}')}; newer modules only warn"
            if scene.os.family == "apt"
            else f"install gcc {major}; newer modules only warn",
            severity="info",
        )
