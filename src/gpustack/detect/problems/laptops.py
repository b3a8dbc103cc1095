"""Laptops with two GPUs: the one that is switched off, the one that never sleeps, and whose backlight is whose."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.parse import pci
from gpustack.detect.problems import cures
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene

_BACKLIGHTS = "/sys/class/backlight"
_ASUS = "/sys/devices/platform/asus-nb-wmi/dgpu_disable"
_SUPERGFX = "/etc/supergfxd.conf"


@detects("detect-backlight")
def backlights(scene: Scene) -> Iterator[Finding]:
    """Several devices for the brightness of one panel, of which NVIDIA's often changes nothing."""
    names = scene.evidence.listings.get(_BACKLIGHTS, ())
    mine = [name for name in names if name.startswith("nvidia")]
    others = [name for name in names if name not in mine]
    if not scene.driver_is_loaded or scene.environment != "bare-metal":
        return
    if len(names) > 1 and mine:
        real = next((name for name in ("nvidia_wmi_ec_backlight", *others) if name in names), mine[0])
        yield Finding(
            message=f"the panel has {len(names)} backlight devices ({', '.join(sorted(names))}), of which one changes "
            f"the brightness: desktops that choose the first do nothing",
            fix=f"`brightnessctl -d {real} set 50%` tells which one works; where it is not {mine[0]}: "
            f"{cures.kernel_argument(scene, 'acpi_backlight=native')}, and NVreg_EnableBacklightHandler=0 for the "
            "module "
            "nvidia",
            severity="info",
            reboot=None,
        )
    elif names and all(name.startswith("acpi_video") for name in names):
        yield Finding(
            message=f"the panel's only backlight device is {names[0]}, which is the firmware's and changes nothing on "
            "many laptops with two GPUs",
            fix=f"where the brightness does not change: {cures.kernel_argument(scene, 'acpi_backlight=native')}",
            severity="info",
            reboot=None,
        )


@detects("detect-gpu-switched-off")
def switched_off(scene: Scene) -> Iterator[Finding]:
    """A laptop's GPU that a tool or the firmware has taken off the bus."""
    if any(gpu.bus_id for gpu in scene.gpus) or scene.environment != "bare-metal":
        return
    mode = re.search(r'"mode":\s*"(\w+)"', scene.evidence.text(_SUPERGFX) or "")
    if mode and mode[1] in {"Integrated", "Vfio"}:
        yield Finding(
            message=f"{_SUPERGFX} has the mode {mode[1]}: supergfxd takes the NVIDIA GPU off the bus, and no driver "
            "finds it",
            fix="`supergfxctl -m Hybrid`, then log out and in again, or reboot",
            severity="warn",
            reboot=True,
        )
    elif scene.evidence.line(_ASUS) == "1":
        yield Finding(
            message=f"{_ASUS} is 1: the firmware keeps the NVIDIA GPU switched off (Eco mode)",
            fix=f"`echo 0 | sudo tee {_ASUS}`, then reboot; or choose another mode in the maker's program",
            severity="warn",
            reboot=True,
        )


@detects("detect-gpu-never-sleeps")
def never_sleeps(scene: Scene) -> Iterator[Finding]:
    """A laptop's GPU that could be switched off at rest, and that a rule keeps on."""
    battery = any(
        "Battery" in text for path, text in scene.evidence.files.items() if path.startswith("/sys/class/power_supply/")
    )
    if scene.environment != "bare-metal":
        return
    for gpu in (gpu for gpu in scene.gpus if battery or _is_laptop(gpu.called)):
        if scene.evidence.line(f"{pci.BASE}/{gpu.bus_id}/power/control") != "on":
            continue
        told = scene.evidence.text(f"/proc/driver/nvidia/gpus/{gpu.bus_id}/power") or ""
        rule = next(
            (
                path
                for path, text in sorted(scene.evidence.files.items())
                if "/udev/rules.d/" in path and re.search(r'power/control}="on"', text)
            ),
            "",
        )
        if "Enabled" in told or (rule and _is_laptop(gpu.called)):
            yield Finding(
                message=f"{gpu.called} could be switched off at rest, and never is: power/control of {gpu.bus_id} is on"
                + (f" (by {rule})" if rule else ""),
                fix=f"`echo auto | sudo tee {pci.BASE}/{gpu.bus_id}/power/control` until the next start; for good a "
                "rule "
                "of udev for vendor 0x10de sets power/control to auto when the driver binds"
                + (f", in place of the one in {rule}" if rule else ""),
                severity="info",
                reboot=False,
            )


def _is_laptop(name: str) -> bool:
    return bool(re.search(r"Mobile|Max-Q|Laptop", name))
