"""Packages and files of one driver that have to be of one release, and that a transaction or a person parted."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.parse import driver
from gpustack.detect.parse.packages import Package
from gpustack.detect.problems import cures
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene
from gpustack.patterns import later
from gpustack.versions import version_key

_ONE_RELEASE = (
    r"libnvidia-(?:compute|gl|decode|encode|cfg1|extra|fbc1)-\d+(?:-server)?|nvidia-(?:utils|compute-utils)-\d+(?:-server)?|"
    r"nvidia-(?:dkms|kernel-common|kernel-source)-\d+(?:-server)?(?:-open)?|"
    r"libcuda1|libnvidia-ml1|nvidia-kernel-(?:open-)?dkms|nvidia-driver-bin|libnvidia-encode1|"
    r"nvidia-driver(?:-\d+xx)?(?:-cuda|-libs|-cuda-libs)?|libnvidia-(?:ml|cfg|fbc|gpucomp)(?:-\d+xx)?|"
    r"akmod-nvidia(?:-\d+xx|-open)?|xorg-x11-drv-nvidia(?:-\d+xx)?(?:-cuda|-libs|-cuda-libs)?|"
    r"kmod-nvidia-(?:open-|latest-)?dkms|nvidia-kmod-common|nvidia-utils|opencl-nvidia|lib32-nvidia-utils|"
    + driver.ROLLING_MODULES
)
"""Packages whose driver version has to be the same on one host."""

_HISTORY = "/var/log/apt/history.log"
_REMOVED = later(r"(?m)^(?:Remove|Purge): (.*)$")
_OF_DRIVER = later(
    r"\b((?:nvidia-driver|nvidia-open|cuda-drivers|nvidia-dkms|nvidia-headless|libnvidia-compute|nvidia-kernel|libcuda1)[\w.-]*)"
)
_PREBUILT = later(r"linux-modules-nvidia-(\d+[a-z-]*?)-(\d+\.\d+\.\d+-\d+)-([\w-]+)")
_FIRMWARE = "/lib/firmware/nvidia"
_NO_DRIVER = {"container", "wsl", "jetson", "chroot"}


@detects("detect-parts-differ")
def parts_differ(scene: Scene) -> Iterator[Finding]:
    """Packages of the driver in several releases: a partial upgrade, or two branches side by side."""
    if scene.environment in _NO_DRIVER:
        return
    found: dict[str, Package] = {}
    for package in scene.installed(_ONE_RELEASE):
        version = driver.driver_version(package)
        if version is not None and package.arch not in {"i386", "i686"}:
            found.setdefault(version, package)
    if len(found) > 1:
        first, *_, last = sorted(found, key=version_key)
        yield Finding(
            message=f"the driver's packages are of several releases: {found[first].name} {first} and "
            f"{found[last].name} {last}; programs fail with a version mismatch, or the module does not load",
            fix=f"{cures.plan('driver')} installs all parts in one release; by hand "
            f"{cures.remove(scene, (found[first],))} and install the rest of {last}",
            reboot=None,
        )


@detects("detect-architectures-differ")
def architectures_differ(scene: Scene) -> Iterator[Finding]:
    """32-bit libraries of another release than the 64-bit ones: 32-bit programs (Steam, Wine) find no GPU."""
    versions: dict[str, dict[str, str]] = {}
    for package in scene.installed(r"libnvidia-.*|nvidia-driver-.*|xorg-x11-drv-nvidia-.*|libcuda1|libgl1-nvidia-.*"):
        version = driver.driver_version(package)
        if version is not None:
            versions.setdefault(package.name, {})["32" if package.arch in {"i386", "i686"} else "64"] = version
    for name, by_width in sorted(versions.items()):
        if len(set(by_width.values())) > 1:
            small = "i386" if scene.os.family == "apt" else "i686"
            joint = f"{name}:{small}" if scene.os.family == "apt" else f"{name}.{small}"
            yield Finding(
                message=f"{name} is {by_width['64']} for 64-bit programs and {by_width['32']} for 32-bit ones "
                f"({small}): 32-bit programs (Steam, Wine) find no GPU (glXChooseVisual failed)",
                fix=f"{cures.install(scene, [joint])} in the release {by_width['64']}",
                reboot=False,
            )
            return


@detects("detect-32-bit-only")
def small_alone(scene: Scene) -> Iterator[Finding]:
    """Programs and libraries of the driver that are here for 32-bit programs only."""
    if scene.environment in _NO_DRIVER or scene.arch != "x86_64":
        return
    widths: dict[str, set[str]] = {}
    for package in scene.installed(
        r"nvidia-smi|libcuda1|libnvidia-ml1|nvidia-driver-bin|libnvidia-compute-.*|nvidia-utils-.*"
    ):
        widths.setdefault(package.name, set()).add(package.arch)
    name = next((name for name, arches in sorted(widths.items()) if arches == {"i386"}), "")
    if name:
        yield Finding(
            message=f"{name} is installed for i386 alone: 64-bit programs and containers do not find it",
            fix=f"{cures.install(scene, [f'{name}:amd64'])}, in the release of the driver",
            severity="warn",
            reboot=False,
        )


@detects("detect-media-part")
def media_part(scene: Scene) -> Iterator[Finding]:
    """A program for media next to a driver without its library for encoders."""
    programs = scene.installed(r"jellyfin(?:-server)?|obs-studio|plexmediaserver|emby-server|handbrake.*")
    loaded = scene.driver_is_loaded
    here = [
        names for names in scene.evidence.listings.values() if any(name.startswith("libcuda.so.") for name in names)
    ]
    encoders = [gpu for gpu in scene.gpus if gpu.nvenc]
    if scene.environment in _NO_DRIVER or not (programs and loaded and here and encoders):
        return
    if any(name.startswith("libnvidia-encode.so") for names in scene.evidence.listings.values() for name in names):
        return
    yield Finding(
        message=f"{programs[0].name} is installed, and the driver's encoder library (libnvidia-encode.so.1) is not: it "
        "offers no NVENC",
        fix="install it in the driver's release: Debian libnvidia-encode1, Ubuntu libnvidia-encode with the branch's "
        "number, Fedora xorg-x11-drv-nvidia-cuda-libs (negativo17: nvidia-driver-cuda-libs)",
        severity="info",
        reboot=False,
    )


@detects("detect-32-bit-missing")
def no_small_libraries(scene: Scene) -> Iterator[Finding]:
    """Steam or a 32-bit Wine next to a driver without its 32-bit libraries."""
    programs = scene.installed(r"steam(?:-launcher|-installer)?|wine32.*")
    mine = scene.installed(r"libnvidia-gl-\d+.*|nvidia-driver-libs|xorg-x11-drv-nvidia-libs")
    small = {"i386", "i686"}
    if programs and mine and not any(package.arch in small for package in mine):
        apt = scene.os.family == "apt"
        yield Finding(
            message=f"{programs[0].name} needs 32-bit libraries of the driver, and {mine[0].name} is here for 64-bit "
            "programs only: 32-bit programs find no GPU (glXChooseVisual failed)",
            fix=("`sudo dpkg --add-architecture i386` and `sudo apt-get update`, then " if apt else "")
            + cures.install(scene, [f"{mine[0].name}{':i386' if apt else '.i686'}"]),
            severity="info",
            reboot=False,
        )


@detects("detect-driver-removed")
def driver_removed(scene: Scene) -> Iterator[Finding]:
    """A driver that apt removed, on a host with a GPU and no driver."""
    if not scene.gpus or scene.environment in _NO_DRIVER or scene.driver_version is not None:
        return
    text = scene.evidence.text(_HISTORY) or ""
    told = [(match, name) for match in _REMOVED.finditer(text) if (name := _OF_DRIVER.search(match[1]))]
    if not told:
        return
    last, name = told[-1]
    before = text[: last.start()].rpartition("\n\n")[2]
    by_itself = "autoremove" in before
    yield Finding(
        message=f"apt removed the driver ({name[1]} and others, {_HISTORY})"
        + (": autoremove took it, because no installed package asked for it" if by_itself else ""),
        fix=f"{cures.plan('driver')} installs it again"
        + ("; `sudo apt-mark manual` with its names keeps autoremove from it" if by_itself else ""),
        severity="warn",
        reboot=None,
    )


@detects("detect-kernel-meta")
def kernel_meta(scene: Scene) -> Iterator[Finding]:
    """Canonical's built modules for one kernel, without the package that follows new kernels."""
    if scene.environment in _NO_DRIVER or scene.installed(r"nvidia-dkms-.*"):
        return
    for package in scene.installed(r"linux-modules-nvidia-.*"):
        match = _PREBUILT.fullmatch(package.name)
        if match is None:
            continue
        branch, _, flavour = match.groups()
        meta = f"linux-modules-nvidia-{branch}-{flavour}"
        kernels = scene.installed(rf"linux-(?:image-|headers-)?{re.escape(flavour)}(?:-hwe-[\d.]+)?")
        if kernels and not scene.installed(rf"{re.escape(meta)}(?:-hwe-[\d.]+)?"):
            yield Finding(
                message=f"{package.name} is installed without {meta}: the next kernel that {kernels[0].name} installs "
                "has no nvidia module",
                fix=f"{cures.install(scene, [meta])} follows new kernels",
                severity="warn",
                reboot=False,
            )
            return


@detects("detect-firmware")
def firmware(scene: Scene) -> Iterator[Finding]:
    """Firmware of the driver for other releases than the one that is loaded, and none for this one."""
    version = scene.driver_version
    there = [name for name in scene.evidence.listings.get(_FIRMWARE, ()) if re.fullmatch(driver.DRIVER_VERSION, name)]
    loaded = scene.driver_is_loaded
    if scene.environment in _NO_DRIVER or not loaded or version is None or not there or version in there:
        return
    yield Finding(
        message=f"{_FIRMWARE} has firmware for {', '.join(sorted(there)[:3])} and none for driver {version}: GPUs that "
        "start with it (GSP) do not come up",
        fix=f"{cures.plan(f'driver=={version}')} installs module and firmware of one release; then reboot",
        reboot=True,
    )


@detects("detect-module-index")
def module_index(scene: Scene) -> Iterator[Finding]:
    """A module on disk that modprobe does not know, because depmod did not run after it came."""
    kernel = str(scene.kernel)  # one that is not known has no folder
    if scene.evidence.marks.get(f"/lib/modules/{kernel}/modules.dep") != "without nvidia":
        return
    yield Finding(
        message=f"the nvidia module is on disk for kernel {kernel}, and its modules.dep does not name it: modprobe "
        "does not find it (Module nvidia not found)",
        fix=f"{cures.command('depmod', '-a', kernel)}, then `sudo modprobe nvidia`",
        reboot=False,
    )


@detects("detect-l4t-parts")
def l4t_parts(scene: Scene) -> Iterator[Finding]:
    """L4T packages of several releases, or a source of another release than the board's."""
    if scene.environment != "jetson":
        return
    found: dict[str, str] = {}
    for package in scene.installed(r"nvidia-l4t-.*"):
        match = re.search(r"(?:^|-)(\d{2}\.\d+(?:\.\d+)?)-\d{14}", package.version)
        if match:
            found.setdefault(match[1], package.name)
    if len(found) > 1:
        first, *_, last = sorted(found, key=version_key)
        yield Finding(
            message=f"L4T packages are of several releases: {found[first]} {first} and {found[last]} {last}: the GPU's "
            "modules and libraries do not fit each other",
            fix="`sudo apt-get update` and `sudo apt-get dist-upgrade` upgrade all nvidia-l4t packages to one release; "
            "release holds on them first (`apt-mark showhold`)",
            reboot=True,
        )
    board = re.search(r"# R(\d+) ", scene.evidence.text("/etc/nv_tegra_release") or "")
    for path, text in sorted(scene.evidence.files.items()):
        told = re.search(r"(?m)^deb \S*/jetson/\S+ r(\d+)\.(\d+)", text) if path.endswith(".list") else None
        if board and told and told[1] != board[1]:
            yield Finding(
                message=f"{path} names release r{told[1]}.{told[2]}, and this board runs L4T R{board[1]}: apt would "
                "mix two releases",
                fix=f"name the board's own release in {path}; a new major release is flashed, or upgraded as "
                "NVIDIA's guide for that release says",
                reboot=False,
            )
            return
