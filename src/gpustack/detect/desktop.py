"""Words of lines that desktops and their programs write about graphics, without a word about NVIDIA."""

from __future__ import annotations

WORDS = (
    b"kwin_wayland_drm", b"Atomic modeset", b"tomic commit", b"drm magic token", b"libGL error", b"GLXBadContext",
    b"VK_ERROR_", b"zero accessible devices", b"dumped core", b": segfault at", b"Could not find dGPU", b"libva error",
    b"va_openDriver", b"_glapi_tls", b"NvRmMem", b"nvbuf_utils", b"nvrm channel", b"[EGL]", b"eglInitialize",
    b"for scanout", b"module not found: ", b"needs unknown symbol", b"glamor", b"Falling back to nouveau",
    b"depsolve transaction", b"bootfb", b"simpledrm",
)  # fmt: skip
"""Each is of a failure: what a desktop writes besides would drive the driver's own lines out of what is kept."""
