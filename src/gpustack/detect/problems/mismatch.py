"""The loaded module against the libraries: whether a reboot makes them equal depends on the module on disk."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.parse import driver, repositories
from gpustack.detect.problems import builds, cures
from gpustack.detect.problems.kernels import has_module, initramfs_command
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.problems.releases import kernel_log, loaded_and_found
from gpustack.detect.scene import Scene
from gpustack.versions import version_key

_SHOWN, _BEFORE = 300, 3
"""The most characters of a log's line that are shown, and the lines before it that may say who asked for it."""

_VGPU_HOST = "has software scheduler ENABLED with policy"
"""What the module of a vGPU host writes about each GPU."""

_UPGRADE_LINE = r"(?i)(?:Packages that will be upgraded|Upgrade:|upgrade |install )[^\n]*nvidia"


@detects("driver_library_mismatch")
def library_mismatch(scene: Scene) -> Iterator[Finding]:
    """The loaded module and the library that programs load have different versions."""
    differing = loaded_and_found(scene)
    if differing is None:
        return
    loaded, found, where = differing
    order = "older" if _is_older(found, loaded) else "newer"
    line = _upgrade_line(scene, found)
    cause = f" The log says: {line}." if line else ""
    if scene.environment == "container":
        fix, reboot = "start the container again, so that it gets the host's current libraries", False
    else:
        fix, reboot = _cure(scene, loaded, found)
    yield Finding(
        message=f"driver/library version mismatch: the loaded kernel module is {loaded}, {where} is {found} ({order}): "
        f"new programs fail until they agree.{cause}",
        fix=fix,
        reboot=reboot,
    )


def module_on_disk(scene: Scene, kernel: str) -> str | None:
    """The version of the module that a kernel would load, None where nothing tells it."""
    told = (scene.evidence.output("modinfo -F version nvidia") or "").strip()
    if told and kernel == scene.kernel:
        return told
    pattern = re.compile(rf"/var/lib/dkms/{builds.DRIVER_MODULE}/({driver.DRIVER_VERSION})")
    built = [
        match[1]
        for folder, names in scene.evidence.listings.items()
        if (match := pattern.fullmatch(folder)) and kernel in names
    ]
    packaged = [
        match[1]
        for package in scene.installed(r"kmod-nvidia-.*")
        if (match := re.fullmatch(rf"kmod-nvidia-(?:open-)?({driver.DRIVER_VERSION})-(\d.*)", package.name))
        and kernel.startswith(f"{match[2]}.")
    ]
    return max((*built, *packaged), key=version_key, default=None)


def _is_older(found: str, loaded: str) -> bool:
    """Whether the libraries are of an older release than the module; the two differ."""
    return min(found, loaded, key=version_key) == found


def _cure(scene: Scene, loaded: str, found: str) -> tuple[str, bool]:
    """What makes module and libraries equal, and whether a reboot is part of it."""
    kernel = scene.next_kernel or scene.kernel or ""
    if _VGPU_HOST in kernel_log(scene)[1]:
        fix = (
            f"a reboot changes nothing: module {loaded} is the vGPU manager's, which hosts have, and {found} is of "
            "another package, as of the guests' driver, whose number differs. Programs and containers of the host "
            f"itself need libraries of release {loaded}; or give them a virtual machine with a vGPU and that driver"
        )
        return fix, False
    disk = module_on_disk(scene, kernel)
    reload = "stop all GPU programs and reload nvidia_uvm, nvidia_drm, nvidia_modeset and nvidia"
    if disk == found:
        again = f"; without a reboot: {reload}" if kernel == scene.kernel else ""
        return f"reboot, so that the kernel loads module {found}{again}{_in_initramfs(scene, loaded)}", True
    reinstall = cures.plan(f"driver=={loaded}")
    is_older = _is_older(found, loaded)
    if disk == loaded and is_older:
        runfile = "`sudo nvidia-uninstall --silent`, then " if driver.is_runfile(scene.evidence) else ""
        fix = f"a reboot changes nothing: module {loaded} is on disk too. {runfile}{reinstall} moves the libraries"
        return f"{fix} to it", False
    known = scene.evidence.listings.get("/lib/modules", ())
    if disk is not None or (kernel in known and not has_module(scene, kernel)):
        state = f"has module {disk}, not {found}" if disk else f"has no module {found}"
        build = f"{_unhold(scene)}{builds.rebuild(scene, kernel)}"
        return f"no reboot yet: kernel {kernel} {state}. First {build}; then reboot", True
    if is_older:
        asked = f"`modinfo -F version nvidia` tells the module on disk: with {found} reboot; with {loaded}"
        return f"{asked} a reboot changes nothing, and {reinstall} moves the libraries to it", True
    first = f"reboot, so that the kernel loads module {found} (`modinfo -F version nvidia` says it before)"
    if scene.evidence.excerpt:
        first = (
            f"`modinfo -F version nvidia` tells the module on disk: with {found} reboot, so that the kernel loads it; "
            f"with {loaded} first install the packages of the module in the libraries' release, or move these back"
        )
    return f"{first}; without a reboot: {reload}{_in_initramfs(scene, loaded)}", True


def _in_initramfs(scene: Scene, loaded: str) -> str:
    """What keeps an older module in spite of a reboot."""
    command = initramfs_command(scene)
    rebuild = f"`{command}`" if command.startswith("sudo") else command
    return f"; if {loaded} is loaded again, the initrd has it: {rebuild}"


def _unhold(scene: Scene) -> str:
    """The command that lifts holds on packages of the module, or ""."""
    held = [
        name
        for name in repositories.holds(scene.evidence, scene.packages)
        if re.search(r"nvidia.*(?:dkms|kernel)|(?:kmod|modules)-nvidia", name)
    ]
    lift = cures.unlock(scene, held) if held else ""
    return f"{lift} lifts the hold on {held[0]}; " if lift else ""


def _upgrade_line(scene: Scene, version: str) -> str:
    """The line of a package log that installed this version, or that upgraded driver packages."""
    logs = [text for path, text in sorted(scene.evidence.files.items()) if path.startswith("/var/log/")]
    lines = [line.strip() for text in logs for line in text.splitlines() if re.search(_UPGRADE_LINE, line)]
    exact = [f"{line}{_by(logs, line)}" for line in lines if version in line]
    return (exact or [line for line in lines if "unattended" in line or "will be upgraded" in line] or [""])[-1][
        :_SHOWN
    ]


def _by(logs: list[str], line: str) -> str:
    """Says so where nobody asked for the upgrade."""
    before = next((text.partition(line)[0].splitlines()[-_BEFORE:] for text in logs if line in text), [])
    return " (by unattended-upgrades)" if any("unattended-upgrade" in words for words in before) else ""
