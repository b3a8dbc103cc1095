"""Words of lines about graphics, builds and faults that do not name NVIDIA."""

from __future__ import annotations

WORDS = (
    b"kwin_wayland_drm", b"Atomic modeset", b"tomic commit", b"drm magic token", b"libGL error", b"GLXBadContext",
    b"VK_ERROR_", b"zero accessible devices", b"dumped core", b": segfault at", b"Could not find dGPU",
    b"libva error", b"va_openDriver", b"_glapi_tls", b"NvRmMem", b"nvbuf_utils", b"nvrm channel", b"[EGL]",
    b"eglInitialize", b"for scanout", b"module not found: ", b"needs unknown symbol", b"glamor",
    b"Falling back to nouveau", b"nvcc", b"ptxas", b"host compiler found", b"will not replace", b"cannot find -l",
    b".h: No such file", b"unsupported GNU version", b"undefined reference to", b"amxtile", b"ldtilecfg",
    b"required to use ATen", b"CMAKE_CUDA", b"exception specification", b"Link Down", b"Card not present",
    b"nobody cared",
    b"blocked for more than", b"soft lockup", b"X_GLX", b"Failed to enter VT", b"modesetting permission", b"nvargus",
    b"Argus", b"KMS update", b"nvmap", b"DEST_MODULE_LOCATION", b"diversion of", b"chvt: command",
    b"initramfs: failed", b"find any GPUs", b"unmet dependencies", b"Conflicting values set", b"modular filtering",
    b"Packages not found", b"repomd", b"unfree license", b"marked as broken", b"EFI variables are not",
    b"PLATFORM_NOT_FOUND", b"depsolve transaction", b"bootfb", b"simpledrm", b"secondary GPU",
    b"Failed to unload module", b"switching method", b"version check failed", b"version-check failed", b"drm master",
    b"in the /proc/version", b"OptiX", b"nvoptix", b"DRM device", b"on any GPU", b"drm devices", b"GBM", b"gbm_",
    b"Pageflip timed", b"graphics reset", b"Session never", b"Display server failed", b"read display number",
    b"is not set when", b"drmSetMaster", b"System resumed again", b"session to become active", b"Software rendering",
    b"failed test", b"drmModeAddFB2", b"Page flip discarded", b"atomic drm request", b"DxvkInstance", b"DXVK:",
    b"does not support required", b"glxserver", b"vkCreateInstance", b"this_module section", b"No module named 'Quirks",
    b"Explicit device", b"WARNING: CPU",
)  # fmt: skip
"""Each is of a failure: what a desktop writes besides would drive the driver's own lines out of what is kept."""
