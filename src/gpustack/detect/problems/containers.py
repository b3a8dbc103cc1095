"""Containers: missing driver libraries, device specifications of another driver."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect import probes
from gpustack.detect.parse.driver import DRIVER_VERSION
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene
from gpustack.patterns import later
from gpustack.versions import is_within

_CDI_LIBRARY = later(rf"lib(?:cuda|nvidia-ml|EGL_nvidia|GLX_nvidia|nvidia-[\w-]+)\.so\.({DRIVER_VERSION})(?!\d)")
_CDI_PATH = later(r"\b(?:hostPath|path)\"?:[ \t]*\"?(/[^\s\",}]+)")
_NO_GROUPS = "no-additional-gids-for-device-nodes"
_CDI_FORMAT = later(r"\bcdiVersion\"?:[ \t]*\"?'?(\d+\.\d+)")


@detects("detect-container-libraries")
def not_injected(scene: Scene) -> Iterator[Finding]:
    """A container that sees the GPU's module but not the driver's libraries."""
    if scene.environment != "container" or not (scene.driver_is_loaded or (scene.gpus and scene.evidence.live)):
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
    for path, text in _specifications(scene):
        named = set(_CDI_LIBRARY.findall(text))
        if named and version not in named:
            yield Finding(
                message=f"the CDI specification {path} names driver {', '.join(sorted(named))}, the driver is "
                f"{version}: containers get "
                "unresolvable CDI devices or missing libraries",
                fix=f"`sudo nvidia-ctk cdi generate --output={path}`",
                reboot=False,
            )


@detects("detect-cdi-paths")
def cdi_paths(scene: Scene) -> Iterator[Finding]:
    """A CDI specification that names a device node or a library that is no longer there."""
    if scene.environment == "container":
        return
    for path, text in _specifications(scene):
        others = set(_CDI_LIBRARY.findall(text)) - {scene.driver_version}
        gone = next((name for name in _CDI_PATH.findall(text) if _is_gone(scene, name)), None)
        if gone is not None and not others:
            yield Finding(
                message=f"the CDI specification {path} names {gone}, which does not exist: containers do not start "
                "(no such file or directory)",
                fix=f"`sudo nvidia-ctk cdi generate --output={path}`",
                reboot=False,
            )


@detects("detect-cdi-podman")
def cdi_podman(scene: Scene) -> Iterator[Finding]:
    """A CDI specification in a format that this podman does not read."""
    podman = next(iter(scene.installed("podman")), None)
    rows = scene.matrix.rows("container-toolkit", "engines", dict)
    row = next(row for row in rows if row["engine"] == "podman")
    if podman is None or not is_within(podman.upstream, f"<{row['minimum']}"):
        return
    for path, text in _specifications(scene):
        form = _CDI_FORMAT.search(text)
        if form and is_within(form[1], ">=0.7"):
            yield Finding(
                message=f"podman {podman.upstream} does not read the CDI specification {path}: its format {form[1]}, "
                f"which the toolkit writes from 1.19.1 on, needs podman {row['minimum']} (unresolvable CDI devices "
                "nvidia.com/gpu=all)",
                fix=f"{_older_format(path)} writes the older format; or install podman {row['minimum']} or newer",
                reboot=False,
                sources=scene.matrix.addresses(row["src"]),
            )


def _older_format(path: str) -> str:
    """The commands that write a specification without the groups of device nodes, now and at each start."""
    if path.startswith("/etc/"):
        return f"`sudo nvidia-ctk cdi generate --feature-flag={_NO_GROUPS} --output={path}`"
    return (
        f"`echo 'NVIDIA_CTK_CDI_GENERATE_FEATURE_FLAGS={_NO_GROUPS}' | sudo tee -a "
        "/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env`, then "
        "`sudo systemctl restart nvidia-cdi-refresh.service`"
    )


def _specifications(scene: Scene) -> list[tuple[str, str]]:
    return [(path, text) for path, text in sorted(scene.evidence.files.items()) if re.search(r"/cdi/[^/]+$", path)]


def _is_gone(scene: Scene, path: str) -> bool:
    """Whether the path's folder was listed and lacks it; of libraries only those that are listed at all."""
    folder, _, name = path.rpartition("/")
    places = (folder, f"/usr{folder}", folder.removeprefix("/usr"))
    listed = [names for place in places if (names := scene.evidence.listings.get(place))]
    is_judged = folder == "/dev/dri" or re.fullmatch(probes.LIBRARY_NAMES, name)
    return bool(is_judged and listed) and not any(name in names for names in listed)
