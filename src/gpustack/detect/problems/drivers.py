"""The driver: module, libraries and packages that do not match each other, or do not support the GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.installed import DISTRIBUTIONS
from gpustack.detect.parse import driver
from gpustack.detect.parse.packages import Package
from gpustack.detect.problems import cures, images
from gpustack.detect.problems.kernels import OWN_KERNEL
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene
from gpustack.model.host import Gpu
from gpustack.versions import version_key

_NO_LINUX_DRIVER = {"wsl", "jetson"}
_NO_OWN_DRIVER = {*_NO_LINUX_DRIVER, "container"}
_FABRIC_MANAGER = r"(?:cuda-drivers-)?(?:nvidia-)?fabric-?manager(?:-\d+)?"
_LOST = {
    "imex": "IMEX does not start, and programs of several trays share no GPU memory",
    "nscq": "DCGM does not see the NVSwitches",
    "fabric": "CUDA fails with error 802 (system not yet initialized)",
}
"""What a part of another release than the driver's costs."""

_TOLD = {frozenset((other, "nvidia")) for other in ("ubuntu", "debian", "suse", "almalinux")}
"""SUSE's and AlmaLinux's signed modules are made for NVIDIA's libraries; the first two have their own detectors."""

_BUILDERS = {"rpmfusion": "RPM Fusion", "nvidia": "NVIDIA"}


def nvidia_source_active(scene: Scene) -> bool:
    """Whether NVIDIA's own CUDA repository is configured and enabled."""
    return any("/compute/cuda/repos" in source.url and source.enabled for source in scene.sources)


def gpu_name(gpu: Gpu) -> str:
    return gpu.called


@detects("mix_driver_runfile_packages")
def runfile_and_packages(scene: Scene) -> Iterator[Finding]:
    """A .run installer's driver together with packages."""
    mine = scene.installed(driver.DRIVER_PACKAGES)
    if driver.is_runfile(scene.evidence) and mine:
        names = ", ".join(package.name for package in mine[:4])
        yield Finding(
            message=f"the driver was installed from a .run file (runfile) and from packages ({names}): they "
            f"overwrite each other",
            fix=f"`sudo nvidia-uninstall --silent`, then {cures.reinstall(scene, mine)}; or, to keep the .run file's "
            f"driver, {cures.remove(scene, mine)} and run the .run file again",
        )


@detects("ubuntu_archive_vs_nvidia_repo")
def ubuntu_and_nvidia(scene: Scene) -> Iterator[Finding]:
    """Driver packages of both Canonical and NVIDIA on one host."""
    by_origin = driver.origins(scene.packages)
    ours, theirs = by_origin.get("nvidia", ()), by_origin.get("ubuntu", ())
    if ours and theirs:
        yield Finding(
            message=f"driver packages of two origins are mixed: {theirs[0].name} {theirs[0].version} from "
            f"Ubuntu's archive "
            f"and {ours[0].name} {ours[0].version} from NVIDIA's repository",
            fix=f"choose one origin: for NVIDIA's {cures.remove(scene, theirs)}, then "
            f"{cures.plan('driver', '--method', 'driver=network')}; for Ubuntu's {cures.remove(scene, ours)}, then "
            f"{cures.plan('driver', '--method', 'driver=distro')}",
        )
    elif theirs and nvidia_source_active(scene) and not _pinned(scene):
        yield Finding(
            message=f"{theirs[0].name} {theirs[0].version} comes from Ubuntu's archive, while NVIDIA's "
            f"repository, which has "
            "packages of the same names, is active too: the next upgrade can mix their origins",
            fix=f"choose one origin: {cures.plan('driver', '--method', 'driver=network')} removes Ubuntu's and pins "
            "NVIDIA's; to keep Ubuntu's, pin the origin developer.download.nvidia.com to 100 in /etc/apt/preferences.d",
            severity="warn",
        )


def _pinned(scene: Scene) -> bool:
    """Whether a pin decides which of two origins wins for driver packages."""
    texts = [text for path, text in scene.evidence.files.items() if path.startswith("/etc/apt/preferences")]
    return any(re.search(r"nvidia|cuda", text, re.IGNORECASE) for text in texts)


@detects("debian_archive_vs_nvidia_repo")
def debian_and_nvidia(scene: Scene) -> Iterator[Finding]:
    """Debian's driver packages together with NVIDIA's repository."""
    theirs = scene.installed(r"nvidia-alternative|glx-alternative-nvidia|nvidia-legacy-check")
    mixed = driver.origins(scene.packages)
    if "debian" in mixed and "nvidia" in mixed:
        a, b = mixed["debian"][0], mixed["nvidia"][0]
        yield Finding(
            message=f"driver packages of two origins are mixed: {a.name} {a.version} from Debian and {b.name} "
            f"{b.version} "
            "from NVIDIA's repository",
            fix=f"choose one origin: for NVIDIA's {cures.remove(scene, mixed['debian'])}, then "
            f"{cures.plan('driver', '--method', 'driver=network')}; for Debian's "
            f"{cures.remove(scene, mixed['nvidia'])}, then {cures.plan('driver', '--method', 'driver=distro')}",
        )
    elif theirs and theirs[0].origin != "nvidia" and nvidia_source_active(scene):
        yield Finding(
            message=f"Debian's driver packages ({theirs[0].name}) are installed while NVIDIA's repository is "
            f"active: both "
            "use the same package names, so their origins can mix",
            fix=f"for NVIDIA's driver {cures.remove(scene, mixed.get('debian') or theirs)}, then "
            f"{cures.plan('driver', '--method', 'driver=network')}; to keep Debian's, remove NVIDIA's source",
        )


def rpmfusion(scene: Scene) -> tuple[Package, ...]:
    """The packages of names that RPM Fusion and its like have, and NVIDIA has not."""
    return scene.installed(r"akmod-nvidia.*|xorg-x11-drv-nvidia.*|nvidia-x11-drv.*")


@detects("rpmfusion_vs_nvidia_repo")
def rpmfusion_and_nvidia(scene: Scene) -> Iterator[Finding]:
    """RPM Fusion's or negativo17's driver together with NVIDIA's."""
    theirs = rpmfusion(scene)
    ours = driver.origins(scene.packages).get("nvidia", ())
    if theirs and (ours or nvidia_source_active(scene)):
        yield Finding(
            message=f"{theirs[0].name} ({theirs[0].origin or 'another repository'}) is installed while NVIDIA's "
            f"repository "
            "is active: their driver packages conflict",
            fix=f"for NVIDIA's driver {cures.remove(scene, theirs)}, then {cures.plan('driver')}; or keep this one, "
            "and take only the toolkit from NVIDIA",
        )


@detects("suse_kmp_mix")
def suse_mix(scene: Scene) -> Iterator[Finding]:
    """Kernel module and libraries of different generations or versions on SUSE."""
    packages = scene.installed(r".*-G0\d(?:-.*)?")
    generations = {match[1]: p for p in packages if (match := re.search(r"-(G0\d)", p.name))}
    if len(generations) > 1:
        yield Finding(
            message=f"driver packages of {' and '.join(sorted(generations))} are installed side by side",
            fix=f"{cures.remove(scene, packages)}, then {cures.plan('driver')}",
        )
    kmp, user = scene.installed(r"nvidia-(?:open-)?driver-G0\d.*-kmp-.*"), scene.installed(r"nvidia-compute-G0\d.*")
    if kmp and user:
        first, second = map(driver.driver_version, (kmp[0], user[0]))
        if first != second:
            yield Finding(
                message=f"{kmp[0].name} is {first} but {user[0].name} is {second}: their versions must be equal",
                fix=f"{cures.remove(scene, (*kmp, *user))}, then {cures.plan('driver')}",
            )


@detects("almalinux_signed_vs_nvidia")
def almalinux_mix(scene: Scene) -> Iterator[Finding]:
    """AlmaLinux's signed module together with NVIDIA's DKMS module."""
    dkms = scene.installed(r"kmod-nvidia-.*dkms")
    if scene.installed(r"almalinux-release-nvidia-driver") and dkms:
        yield Finding(
            message=f"AlmaLinux's signed driver repository is set up and NVIDIA's {dkms[0].name} is installed too",
            fix=f"with Secure Boot keep AlmaLinux's: {cures.remove(scene, dkms)}; otherwise "
            f"{cures.remove(scene, scene.installed(r'almalinux-release-nvidia-driver'))}",
        )


@detects("detect-mixed-origins")
def other_mixes(scene: Scene) -> Iterator[Finding]:
    """Driver packages of two builders without a dedicated detector."""
    named = [name for name in driver.origins(scene.packages) if name in DISTRIBUTIONS or name == "nvidia"]
    others_tell = "nvidia" in named and rpmfusion(scene)
    if len(named) > 1 and frozenset(named) not in _TOLD and not others_tell:
        by_origin = driver.origins(scene.packages)
        parts = ", ".join(f"{by_origin[name][0].name} from {_BUILDERS.get(name, name)}" for name in sorted(named))
        keep = max(by_origin, key=lambda name: (len(by_origin[name]), name))
        others = [package for name in named if name != keep for package in by_origin[name]]
        yield Finding(
            message=f"driver packages of several origins are mixed: {parts}",
            fix=f"keep the packages of one origin; for those of {_BUILDERS.get(keep, keep)}: "
            f"{cures.remove(scene, others)}",
        )


@detects("proprietary_on_blackwell")
def flavour(scene: Scene) -> Iterator[Finding]:
    """The module's flavour does not support a GPU."""
    module = scene.module
    if module is None or scene.environment in _NO_OWN_DRIVER:
        return
    for gpu in scene.gpus:
        if module.flavour == "proprietary" and gpu.open_module == "required":
            yield Finding(
                message=f"{gpu_name(gpu)} requires the open kernel modules, but the installed module is "
                f"proprietary: "
                "no device will be found",
                fix=f"{cures.plan('driver', '--kernel-module', 'open')}, and reboot",
                reboot=True,
            )
        if module.flavour == "open" and gpu.open_module == "impossible":
            yield Finding(
                message=f"{gpu_name(gpu)} ({gpu.architecture}) is not supported by the open kernel modules, which "
                f"are installed: "
                "it needs the proprietary module",
                fix=images.cure(scene)
                or cures.plan(f"driver=={gpu.driver_last}.*", "--kernel-module", "proprietary") + ", and reboot",
                reboot=True,
            )


def _named_branch(scene: Scene) -> str | None:
    """The branch of the driver that a text names by a package, where it names one alone."""
    found = set(re.findall(r"\bnvidia-driver-(\d{3})\b", scene.evidence.pasted))
    return found.pop() if len(found) == 1 else None


def _window_findings(scene: Scene) -> Iterator[tuple[bool, Finding]]:
    """GPUs outside of the driver's window, each with whether the driver is too old."""
    version = scene.driver_version or _named_branch(scene)
    if version is None or scene.environment in _NO_LINUX_DRIVER:
        return
    branch = version.partition(".")[0]
    seen = set()
    for gpu in scene.gpus:
        first, last = gpu.driver_first, gpu.driver_last
        key = (gpu_name(gpu), first, last)
        if key in seen:
            continue
        seen.add(key)
        if last and version_key(branch) > version_key(last):
            yield (
                False,
                Finding(
                    message=f"{gpu_name(gpu)} ({gpu.architecture}) is not supported by driver {version}: branch "
                    f"{last} is the last one that supports it, {branch} ignores this GPU",
                    fix=images.cure(scene)
                    or f"{cures.plan(f'driver=={last}.*')} installs and holds that branch; then reboot",
                    reboot=True,
                    severity="block",
                ),
            )
        elif first and version_key(branch) < version_key(first):
            yield (
                True,
                Finding(
                    message=f"{gpu_name(gpu)} ({gpu.architecture}) is newer than driver {version}: it needs "
                    f"branch {first} or later",
                    fix=f"{cures.plan(f'driver>={first}')} installs branch {first} or later; then reboot",
                    reboot=True,
                    severity="block",
                ),
            )


@detects("detect-gpu-driver-window")
def driver_window(scene: Scene) -> Iterator[Finding]:
    """GPUs that the installed driver is too new or too old for."""
    from_debian = "debian" in driver.origins(scene.packages)
    for is_old, finding in _window_findings(scene):
        if not (is_old and from_debian):
            yield finding


@detects("old_distro_driver_new_gpu")
def debian_driver_too_old(scene: Scene) -> Iterator[Finding]:
    """Debian's driver, older than the GPU."""
    if "debian" in driver.origins(scene.packages):
        yield from (finding for is_old, finding in _window_findings(scene) if is_old)


@detects("branch_eol")
def branch_end(scene: Scene) -> Iterator[Finding]:
    """A driver branch without further fixes."""
    version = scene.driver_version
    if version is None or scene.environment in _NO_OWN_DRIVER or scene.evidence.excerpt:
        return  # a text is about one failure, and of a day that it does not tell
    branch = version.partition(".")[0]
    rows = scene.matrix.rows("conflicts", "branch_ends", dict)
    end = next((str(row["eol"]) for row in rows if str(row["branch"]) == branch and "eol" in row), None)
    if end is not None and end < scene.evidence.date:
        last = next((gpu.called for gpu in scene.gpus if gpu.driver_last == branch), "")
        yield Finding(
            message=f"driver branch {branch} (installed: {version}) is past its end of life, {end}",
            fix=f"no newer branch supports {last}: keep its last release (`gpustack plan driver`)"
            if last
            else "plan a supported branch: `gpustack plan driver`",
            severity="info",
        )


@detects("fabric_manager_mismatch")
def fabric_manager_differs(scene: Scene) -> Iterator[Finding]:
    """Fabric Manager and similar services differ from the driver's exact version."""
    version = scene.driver_version
    mine = scene.installed(rf"{_FABRIC_MANAGER}|libnvidia-nscq(?:-\d+)?|nvidia-imex(?:-\d+)?")
    for package in mine:
        component = "imex" if "imex" in package.name else "fabric-manager"
        lost = next((text for word, text in _LOST.items() if word in package.name), _LOST["fabric"])
        if version and package.upstream != version:
            yield Finding(
                message=f"{package.name} is {package.upstream} but the driver is {version}: they must be equal to "
                f"the last digit, or {lost}",
                fix=f"{cures.plan(f'driver=={version}', component)} moves {package.name} to {version}, from "
                "the same origin as the driver",
                reboot=False,
            )


@detects("fabric_manager_missing")
def fabric_manager_absent(scene: Scene) -> Iterator[Finding]:
    """NVSwitches without Fabric Manager."""
    if scene.environment in OWN_KERNEL or scene.driver_version is None:
        return
    switches = scene.nvswitches
    managed = any(mark == "SW_MNG" for mark in scene.evidence.marks.values())
    fabric = [gpu for gpu in scene.gpus if gpu.fabric == "nvswitch"]
    has = scene.installed(_FABRIC_MANAGER) or "/usr/bin/nv-fabricmanager" in scene.evidence.marks
    if has or not (switches or managed or (len(fabric) >= 8 and scene.environment == "bare-metal")):
        return
    seen = f"{switches} NVSwitches" if switches else f"{len(fabric)} GPUs of an NVSwitch baseboard"
    seen = seen if switches or fabric else "managed NVSwitches"
    yield Finding(
        message=f"this machine has {seen} but no Fabric Manager: CUDA fails with error 802 (system not yet "
        f"initialized)",
        fix=f"{cures.plan(f'driver=={scene.driver_version}', 'fabric-manager')} installs Fabric Manager in "
        "exactly that version and enables its service",
        reboot=False,
    )


@detects("mig_enabled")
def mig(scene: Scene) -> Iterator[Finding]:
    """GPUs that are partitioned."""
    split = [gpu for gpu in scene.gpus if gpu.is_mig]
    if split:
        yield Finding(
            message=f"MIG is enabled on {len(split)} GPU(s): programs see instances; small ones have no encoder",
            fix="no change is needed; to verify an instance, select it: CUDA_VISIBLE_DEVICES=MIG-... "
            "(`nvidia-smi -L` lists them)",
            severity="info",
        )
