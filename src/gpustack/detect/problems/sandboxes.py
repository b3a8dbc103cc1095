"""Sandboxed programs, which use driver libraries of their own: flatpaks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene

_RUNTIMES = {f"/var/lib/flatpak/runtime/org.freedesktop.Platform{name}" for name in ("", ".GL.default")}
_LIBRARIES = "org.freedesktop.Platform.GL.nvidia-"


@detects("detect-flatpak-driver")
def flatpak(scene: Scene) -> Iterator[Finding]:
    """Flatpaks without the driver libraries of the module that is loaded."""
    names = {path.rpartition("/")[2] for path in scene.evidence.marks if f"/runtime/{_LIBRARIES}" in path}
    names |= set(re.findall(rf"{re.escape(_LIBRARIES)}[\d-]+\b", scene.evidence.pasted))
    if not names and not _RUNTIMES & scene.evidence.marks.keys():
        return
    if not scene.driver_is_loaded or scene.driver_version is None:
        return
    wanted = f"{_LIBRARIES}{scene.driver_version.replace('.', '-')}"
    if wanted not in names:
        said = f"only {', '.join(sorted(names))}" if names else "no libraries of NVIDIA's"
        yield Finding(
            message=f"flatpaks use driver libraries of their own, and {said} are installed: with driver "
            f"{scene.driver_version} loaded they draw without the GPU or do not start; they lack {wanted}",
            fix=f"`flatpak update`, or `flatpak install flathub {wanted}`",
            severity="info",
            reboot=False,
        )
