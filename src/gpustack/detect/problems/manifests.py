"""Files by which Vulkan, EGL and 32-bit programs find the driver's libraries, and that are not there."""

from __future__ import annotations

from collections.abc import Iterator

from gpustack.detect.parse import settings
from gpustack.detect.probes import DESKTOPS
from gpustack.detect.problems import cures
from gpustack.detect.problems.kernels import initramfs_command
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene

_ICDS = ("/usr/share/vulkan/icd.d/", "/etc/vulkan/icd.d/")
_EGL = ("/usr/share/glvnd/egl_vendor.d/", "/etc/glvnd/egl_vendor.d/")
_LIBRARY = "libGLX_nvidia.so."
_SMALL = ("/usr/lib32/", "/usr/lib/i386-linux-gnu/")
_MACHINES = {"bare-metal", "vm"}


def _draws(scene: Scene) -> bool:
    """Whether the driver is loaded on a machine whose GPUs are for graphics."""
    loaded = scene.driver_is_loaded
    return loaded and scene.environment in _MACHINES and any(gpu.kind != "datacenter" for gpu in scene.gpus)


def _libraries(scene: Scene) -> list[str]:
    """The driver's OpenGL and Vulkan libraries."""
    return [path for path in scene.evidence.marks if path.rpartition("/")[2].startswith(_LIBRARY)]


def _large(scene: Scene) -> bool:
    """Whether these libraries are here for 64-bit programs."""
    return any(not path.startswith(_SMALL) for path in _libraries(scene))


def _others(scene: Scene, places: tuple[str, ...]) -> str:
    """The first description of a driver in these folders, where none is NVIDIA's; "" otherwise."""
    there = {path: text for place in places for path, text in scene.evidence.under(place, ".json").items()}
    is_mine = any("nvidia" in f"{path}\n{text}".lower() for path, text in there.items())
    return "" if is_mine else next(iter(there), "")


@detects("detect-vulkan-manifest")
def no_vulkan(scene: Scene) -> Iterator[Finding]:
    """Descriptions of other drivers for Vulkan, and none of NVIDIA's."""
    other = _others(scene, _ICDS)
    if not _draws(scene) or not other:
        return
    what = (
        "although its library is there"
        if _large(scene)
        else "and the driver's graphics libraries are not installed either"
    )
    yield Finding(
        message=f"Vulkan programs do not find the NVIDIA GPU: no nvidia_icd.json is next to {other}, {what}; they "
        "draw on another GPU or on the processor (llvmpipe)",
        fix=f"{cures.plan('driver')} installs all parts of the driver; of packages it is the one with the graphics "
        "libraries (libnvidia-gl, nvidia-utils, xorg-x11-drv-nvidia-libs, nvidia-gl-G06)",
        severity="info",
        reboot=False,
    )


@detects("detect-egl-manifest")
def no_egl(scene: Scene) -> Iterator[Finding]:
    """Descriptions of other drivers for EGL, and none of NVIDIA's although its library is there."""
    other = _others(scene, _EGL)
    if not _draws(scene) or not other or not _large(scene):
        return
    yield Finding(
        message=f"EGL programs (Wayland, browsers, headless rendering) do not find the NVIDIA GPU: no 10_nvidia.json "
        "is "
        f"next to {other}",
        fix=f"reinstall the driver's graphics libraries, which have that file; {cures.plan('driver')} installs all "
        "parts",
        severity="info",
        reboot=False,
    )


@detects("detect-32-bit-files")
def small_files(scene: Scene) -> Iterator[Finding]:
    """32-bit OpenGL next to a driver whose 32-bit libraries are missing, or of another release."""
    version = scene.driver_version
    loaders = [f"{place}libGL.so.1" for place in _SMALL if scene.evidence.has(f"{place}libGL.so.1")]
    mine = _libraries(scene)
    if not _draws(scene) or not loaders or not _large(scene) or not version:
        return
    small = {path.rpartition(_LIBRARY)[2]: path for path in mine if path.startswith(_SMALL)}
    numbers = [text for text in small if "." in text]
    if version in small or (small and not numbers):
        return
    other = f"is of {numbers[0]}" if numbers else "is missing"
    yield Finding(
        message=f"32-bit programs (Steam, Wine) find no NVIDIA GPU: {loaders[0]} is here, and the driver's 32-bit "
        "library "
        f"{other} (the driver is {version})",
        fix=_small_package(scene, version),
        severity="info",
        reboot=False,
    )


@detects("detect-wayland-hidden")
def wayland_hidden(scene: Scene) -> Iterator[Finding]:
    """Settings of the driver with which login screens offer no Wayland session."""
    text = scene.evidence.text("/usr/lib/udev/rules.d/61-gdm.rules", "/lib/udev/rules.d/61-gdm.rules") or ""
    modeset = scene.evidence.line("/sys/module/nvidia_drm/parameters/modeset")
    kept = settings.params(scene.evidence).get("PreserveVideoMemoryAllocations")
    desktop = next((path for path in DESKTOPS if scene.evidence.has(path)), "")
    rebuild = initramfs_command(scene)
    if not _draws(scene) or scene.environment != "bare-metal":
        return
    if modeset == "N" and (text or desktop):
        yield Finding(
            message="nvidia_drm runs without modeset: login screens offer no Wayland session on this GPU, and "
            "compositors "
            "do not start on it",
            fix=cures.module_option("nvidia_drm modeset=1", "nvidia-drm-modeset", rebuild),
            severity="info",
            reboot=True,
        )
    elif kept == "0" and "PRESERVE_VIDEO_MEMORY" in text:
        yield Finding(
            message="GDM's rule 61-gdm.rules offers no Wayland session on this GPU: PreserveVideoMemoryAllocations "
            "is 0",
            fix=cures.module_option("nvidia NVreg_PreserveVideoMemoryAllocations=1", "nvidia-preserve", rebuild)
            + "; `sudo systemctl enable nvidia-suspend nvidia-resume nvidia-hibernate`",
            severity="info",
            reboot=True,
        )


def _small_package(scene: Scene, version: str) -> str:
    manager = scene.system.manager if scene.system is not None else ""
    if manager == "pacman":
        return f"{cures.install(scene, ['lib32-nvidia-utils'])} in the driver's release {version}"
    if scene.os.family == "apt":
        return f"install the :i386 package of the driver's graphics libraries (libnvidia-gl) in the release {version}"
    return f"install the driver's 32-bit libraries (.i686, lib32, -32bit) in the release {version}"
