"""What desktops, compositors and graphics programs say when they do not get a picture out of the driver."""

from __future__ import annotations

from gpustack.detect.problems.phrases import Cause, Phrase, said
from gpustack.detect.scene import Scene
from gpustack.patterns import later

_COMPOSITOR = (
    r"(?P<who>kwin_wayland|kwin_x11|gnome-shell|mutter|Hyprland|sway|labwc|niri|wayfire|weston|cosmic-comp|gamescope|"
    r"plasmashell|Xorg|Xwayland)"
)
_NAMES = {"kwin_wayland": "KWin", "kwin_x11": "KWin", "gnome-shell": "GNOME", "plasmashell": "Plasma"}

ABOUT = later(
    _COMPOSITOR
    + r"|kwin_\w+|\[wlr\]|libGL error|GLXBadContext|VK_ERROR_\w+|accessible devices|dGPU|libva error|va_openDriver|"
    r"_glapi_tls|NvRm|nvbuf_utils|nvrm channel|\bEGL|eglInit|for scanout|akmod|kmod-|ocl-icd|bbswitch|bumblebee"
)
"""Lines about graphics that need not name NVIDIA."""

_SESSION = (
    "log in to another session (X11 in place of Wayland, or the reverse) to see whether it is the compositor's way of "
    "talking to nvidia-drm; upgrade compositor and driver together, or go back to the releases before the update"
)
_ROWS: tuple[Phrase, ...] = (
    ((r"(?:kwin_wayland\w*|KWin).{0,80}(?:modeset test failed|Presentation failed|configuration failed|tomic commit|"
     r"create framebuffer|magic token|no DRM master)"),
     "KWin cannot show its picture: nvidia-drm refused the mode, or the session has no right to the display",
     _SESSION, True),
    (_COMPOSITOR + r".{0,120}(?:dumped core|segfault|SIGSEGV|SIGABRT|general protection)",
     "{who} crashed, and the session with it", _SESSION, True),
    (r"tomic commit.{0,40}failed|failed.{0,40}tomic commit|drmModeAtomicCommit",
     "the compositor's changes of the display were refused by nvidia-drm", _SESSION, False),
    (r"for scanout", ("nvidia-drm cannot show a buffer that the compositor or another GPU made (another memory or "
     "format)"), _SESSION, False),
    (r"/snap/[\w.-]+/.*(?:undefined symbol|swrast|libGL|_glapi_tls)|_glapi_tls",
     "a program in a snap uses a graphics library of its own (GL) that does not work with this driver's",
     "`sudo snap refresh` with a newer base of the snap; or install the program as a package or flatpak", True),
    (r"libGL error.{0,80}(?:swrast|fbConfigs|visuals)|GLXBadContext",
     ("a program's OpenGL is not the driver's: a 32-bit program (Steam, Wine) without the driver's 32-bit libraries, "
     "or a program in a snap or flatpak without the driver's"),
     ("install the driver's 32-bit libraries in the same release (lib32-nvidia-utils, libnvidia-gl:i386, "
     "xorg-x11-drv-nvidia-libs.i686); `flatpak update`, `sudo snap refresh`"), True),
    (r"VK_ERROR_INCOMPATIBLE_DRIVER|VK_ERROR_INITIALIZATION_FAILED|zero accessible devices",
     ("Vulkan finds no GPU: its description of the driver (nvidia_icd.json) or the library that this names does not "
     "load"),
     ("`ls /usr/share/vulkan/icd.d` must have nvidia_icd.json; VK_ICD_FILENAMES and VK_DRIVER_FILES must not hide it; "
     "`nvidia-smi` must work"), True),
    (r"VK_ERROR_DEVICE_LOST", "the GPU was reset, or left the bus, under a Vulkan program",
     "`sudo dmesg | grep -E 'NVRM|Xid'` says what happened to the GPU at that time", True),
    (r"VK_ERROR_OUT_OF_DEVICE_MEMORY", "the GPU's memory is full", "`nvidia-smi` lists the programs that use it", True),
    (r"Cannot init CUDA",
     ("a program finds CUDA's library and cannot start it: it is of another release than the loaded module, or "
     "nvidia_uvm is not loaded"),
     "`gpustack verify driver`; `sudo nvidia-modprobe -u`; reboot after an upgrade", True),
    (r"outdated.driver|driver is outdated", "a program wants a newer driver than this one",
     ("`gpustack plan driver` installs a newer one where the GPU has one; an older release of the program runs with "
     "this driver"), True),
    (r"Could not find dGPU", ("supergfxd does not find the GPU: its mode Integrated has taken it off the bus, or its "
     "service lacks lspci (pciutils) in PATH"),
     "`supergfxctl -g` shows the mode, `supergfxctl -m Hybrid` puts the GPU on the bus again; install pciutils", True),
    (r"libva error|va_openDriver",
     "VA-API has no driver for this GPU: NVIDIA's has none, and nvidia-vaapi-driver is one on top of NVDEC",
     ("install nvidia-vaapi-driver (libva-nvidia-driver), set LIBVA_DRIVER_NAME=nvidia, and nvidia-drm.modeset=1"),
     True),
    (r"NvRmMem.{0,60}Permission denied|nvrm channel|Default NvBufferSession",
     "a user may not open the Jetson's GPU memory (/dev/nvmap): it belongs to the group video",
     '`sudo usermod -aG video "$USER"`, then log in again; a container needs --runtime nvidia and that group', True),
    (r"NvRmMem|Memory Manager Not supported", "the Jetson's memory device (/dev/nvmap) is not there for a program",
     "start the container with --runtime nvidia on a host of the same L4T release; `ls -l /dev/nvmap`", True),
    (r"(?:EGL|egl)\w*.{0,120}(?:EGL_BAD_\w+|EGL_NOT_INITIALIZED|failed|Failed)|[Ff]ailed to initialize EGL",
     "EGL, with which the compositor draws, does not start on the GPU",
     ("`cat /sys/module/nvidia_drm/parameters/modeset` must be Y; module and libraries must be of one release (reboot "
     "after an upgrade); egl-wayland and egl-gbm of the driver must be installed"), False),
)  # fmt: skip


def graphical(_: Scene, line: str) -> Cause | None:
    """What a failure of a desktop or a graphics program means on a host with this driver."""
    return said(_ROWS, line, names=_NAMES)
