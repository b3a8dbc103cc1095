"""The releases of the driver's module and library, as files or the kernel's log tell them."""

from __future__ import annotations

from gpustack.detect.parse import driver
from gpustack.detect.parse.libraries import driver_library
from gpustack.detect.scene import Scene
from gpustack.patterns import later

BOOT = "Linux version "
_NO_LINUX_DRIVER = {"wsl", "jetson"}
_API = later(
    rf"API mismatch: the client has (?:the )?version ({driver.DRIVER_VERSION}), but\s*(?:.*NVRM: )?"
    rf"this kernel module has (?:the )?version ({driver.DRIVER_VERSION})|"
    rf"API mismatch: the NVIDIA kernel module has version ({driver.DRIVER_VERSION}),\s*(?:.*NVRM: )?"
    rf"but this NVIDIA driver component has version ({driver.DRIVER_VERSION})"
)


def kernel_log(scene: Scene) -> tuple[str, str]:
    """Where the kernel's messages come from, and those of the last boot; "" where none could be read."""
    for name in ("dmesg", "journalctl"):
        text = scene.evidence.output(name)
        if text is not None:
            return name, text
    path = scene.evidence.marks.get("kernel log", "").partition(" ")[0]
    text = scene.evidence.text(path) or ""
    before, boot, since = text.rpartition(BOOT)
    return path, before.rpartition("\n")[2] + boot + since


def differ(scene: Scene) -> bool:
    """Whether module and library are told to differ, with their versions."""
    return loaded_and_found(scene) is not None


def loaded_and_found(scene: Scene) -> tuple[str, str, str] | None:
    """The loaded module's version, that of the library that programs load, and where it is, where they differ."""
    module = scene.module
    if scene.environment in _NO_LINUX_DRIVER:
        return None
    if scene.evidence.excerpt and (said := _said(scene)) is not None:
        return said
    if module is None or not module.loaded or not module.version:
        return None
    library = driver_library(scene.copies)
    found, where = (library.version, library.path) if library is not None else (None, "")
    if found is None:
        found, where = driver.package_version(scene.packages), "that of the packages"
    return None if found is None or found == module.version else (module.version, found, where)


def _said(scene: Scene) -> tuple[str, str, str] | None:
    """Both releases as the kernel's or NVML's message of a mismatch has them, where a text is all of the host."""
    told = list(_API.finditer(kernel_log(scene)[1]))
    if told:
        client, module, module_before, client_before = told[-1].groups()
        return (module or module_before), (client or client_before), "a program's library"
    library = (scene.evidence.nvml or {}).get("library")
    loaded = scene.module.version if scene.module is not None else None
    # NVML tells two of a release's three numbers.
    if not library or not loaded or f"{loaded}.".startswith(f"{library}."):
        return None
    return loaded, library, "NVML's library"
