"""Containers: missing driver libraries, device specifications of another driver."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.parse.driver import DRIVER_VERSION
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene

_CDI_LIBRARY = re.compile(rf"lib(?:cuda|nvidia-ml|EGL_nvidia|GLX_nvidia|nvidia-[\w-]+)\.so\.({DRIVER_VERSION})(?!\d)")


@detects("detect-container-libraries")
def not_injected(scene: Scene) -> Iterator[Finding]:
    """A container that sees the GPU's module but not the driver's libraries."""
    loaded = scene.module is not None and scene.module.loaded
    if scene.environment != "container" or not (loaded or (scene.gpus and scene.evidence.live)):
        return
    names = {name for folder in scene.evidence.listings.values() for name in folder}
    asked = scene.evidence.environ.get("NVIDIA_DRIVER_CAPABILITIES") or _process_value(
        scene, "NVIDIA_DRIVER_CAPABILITIES"
    )
    if not any(name.startswith("libcuda.so") for name in names) and not any(
        name.startswith("libnvidia-ml.so") for name in names
    ):
        yield Finding(
            message="this container sees an NVIDIA driver on its host, but the driver's libraries (libcuda.so.1) "
            "were not injected into it",
            fix="start it with the NVIDIA container toolkit: `--gpus all` (docker) or `--device "
            "nvidia.com/gpu=all` (CDI), and "
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility,video",
            reboot=False,
        )
    elif any(name.startswith("libcuda.so") for name in names) and not any(
        name.startswith("libnvidia-encode.so") for name in names
    ):
        said = f" (NVIDIA_DRIVER_CAPABILITIES is {asked})" if asked else ""
        yield Finding(
            message=f"libnvidia-encode.so.1 was not injected into this container{said}: NVENC does not work here",
            fix="start it with NVIDIA_DRIVER_CAPABILITIES=compute,utility,video (or all)",
            severity="info" if not asked else "warn",
            reboot=False,
        )


def _process_value(scene: Scene, name: str) -> str | None:
    lines = (scene.evidence.text("/proc/1/environ") or "").splitlines()
    return next((line.partition("=")[2] for line in lines if line.startswith(f"{name}=")), None)


@detects("detect-cdi-version")
def cdi_version(scene: Scene) -> Iterator[Finding]:
    """A CDI specification that names files of another driver version."""
    version = scene.driver_version
    if version is None or scene.environment == "container":
        return
    for path, text in sorted(scene.evidence.files.items()):
        if not re.search(r"/cdi/[^/]+$", path):
            continue
        named = set(_CDI_LIBRARY.findall(text))
        if named and version not in named:
            yield Finding(
                message=f"the CDI specification {path} names driver {', '.join(sorted(named))}, the driver is "
                f"{version}: containers get "
                "unresolvable CDI devices or missing libraries",
                fix=f"`sudo nvidia-ctk cdi generate --output={path}`",
                reboot=False,
            )
