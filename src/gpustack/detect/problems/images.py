"""Systems whose driver is part of their image: no package replaces it, another image does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from gpustack.detect.parse import settings
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene

INFO = "/usr/share/ublue-os/image-info.json"
_PRE_TURING = "impossible"


def image_name(scene: Scene) -> str:
    """The name of a Universal Blue image, "" on other systems."""
    text = scene.evidence.text(INFO)
    try:
        info: Any = msgspec.json.decode(text) if text is not None else None
    except msgspec.DecodeError:
        return ""
    name = info.get("image-name") if isinstance(info, dict) else None
    return name if isinstance(name, str) else ""


def cure(scene: Scene) -> str:
    """What replaces the driver of an image by one for older GPUs, "" on other systems."""
    name = image_name(scene)
    return f"`sudo rpm-ostree rollback` returns to the image before {name}; {_other(name)}" if name else ""


@detects("detect-image-driver")
def wrong_image(scene: Scene) -> Iterator[Finding]:
    """An image without a driver, or with one that does not support the GPU."""
    name = image_name(scene)
    if not name or not scene.gpus or scene.driver_is_loaded:
        return
    old = next((gpu for gpu in scene.gpus if gpu.open_module == _PRE_TURING), None)
    if old is not None and ("-open" in name or "-dx" in name):
        yield Finding(
            message=f"the driver of the image {name} does not support {old.called} ({old.architecture}): this GPU "
            "needs the proprietary modules of branch 580 or older",
            fix=cure(scene),
            severity="block",
            reboot=True,
        )
    elif "nvidia" not in name:
        yield Finding(
            message=f"the image {name} contains no NVIDIA driver, and this machine has {scene.gpus[0].called}",
            fix="rebase to the image of the same name with -nvidia-open (Turing and later): `sudo bootc switch "
            f"--enforce-container-sigpolicy ghcr.io/ublue-os/{name}-nvidia-open:stable`, and reboot",
            severity="warn",
            reboot=True,
        )
    else:
        yield from _hidden(scene, name)


def _hidden(scene: Scene, name: str) -> Iterator[Finding]:
    """An image with a driver whose kernel lacks the arguments that keep nouveau away."""
    words = settings.command_line(scene.evidence)
    if words and not any("blacklist" in word and "nouveau" in word for word in words):
        yield Finding(
            message=f"the image {name} has the driver, and the kernel's command line does not keep nouveau away",
            fix="`sudo rpm-ostree kargs --append-if-missing=rd.driver.blacklist=nouveau "
            "--append-if-missing=modprobe.blacklist=nouveau --append-if-missing=nvidia-drm.modeset=1` "
            "(`ujust configure-nvidia`), and reboot",
            severity="warn",
            reboot=True,
        )


def _other(name: str) -> str:
    if name.startswith("bazzite"):
        return (
            "bazzite-nvidia (bazzite-gnome-nvidia with GNOME) has a driver for older GPUs: `sudo bootc switch "
            "--enforce-container-sigpolicy ghcr.io/ublue-os/bazzite-nvidia:stable`"
        )
    return "Universal Blue has no image of this name with a driver for older GPUs any more"
