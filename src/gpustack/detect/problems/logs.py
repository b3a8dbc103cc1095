"""The log of the kernel, and of Fabric Manager: the first grave message, and what followed from it."""

from __future__ import annotations

from collections.abc import Iterator

from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.problems.releases import differ, kernel_log
from gpustack.detect.problems.rows import tells_more
from gpustack.detect.scene import Scene
from gpustack.patterns import later

FILES = ("/var/log/kern.log", "/var/log/messages", "/var/log/syslog", "/var/log/dmesg")
FABRIC = ("/var/log/fabricmanager.log", "/var/log/syslog", "/var/log/messages", "/root/pasted.log")
"""The last one has the lines of programs in a pasted text."""
RESUMED = "PM: suspend exit"
_OF_DESKTOP = later(
    r"Xid .*name=\.?(?:Xorg|Xwayland|gnome-shell|mutter|kwin|plasma|gala|cinnamon|muffin|budgie|cosmic|Hyprland|sway|"
    r"niri|wayfire|labwc|gamescope|compiz|xfwm)"
)
"""An error of the program that draws the desktop: of one that ran before a suspend it loses what it had drawn."""


def has_fault(scene: Scene) -> bool:
    """Whether the kernel's log names a fault of a GPU, which every program then meets."""
    from gpustack.solve.kernel_log import judge  # noqa: PLC0415 (few hosts have a line that asks for it)

    text = kernel_log(scene)[1]
    return "Xid (" in text and bool(judge(scene.matrix, text).message)


@detects("detect-kernel-log")
def kernel_messages(scene: Scene) -> Iterator[Finding]:
    """What the driver said of GPUs since the last boot."""
    where, text = kernel_log(scene)
    yield from _finding(scene, where, text, "kernel")


@detects("detect-fabric-log")
def fabric_messages(scene: Scene) -> Iterator[Finding]:
    """What Fabric Manager said since it last worked."""
    for path in FABRIC:
        text = scene.evidence.text(path)
        if text:
            yield from _finding(scene, path, text, "fabric")
            return


def _finding(scene: Scene, where: str, text: str, log: str) -> Iterator[Finding]:
    if not text:
        return
    from gpustack.solve.kernel_log import judge  # noqa: PLC0415 (most trees have no such log)

    found = judge(scene.matrix, text, log=log)
    if "API mismatch" in found.line and not (found.then or found.also) and differ(scene):
        return
    if found.message and tells_more(scene, found.line):
        return
    if found.message:
        yield Finding(
            message=f"{found.message} ({where}, {found.told})",
            fix=found.fix,
            severity="warn",
            sources=scene.matrix.addresses(found.src),
        )
        return
    if not found.remarks:
        return
    if _OF_DESKTOP.search(text, text.find(RESUMED) + 1 or len(text)):
        yield Finding(
            message=f"the desktop met errors after a suspend (Xid {', '.join(found.remarks)}): the GPU's memory was "
            f"not kept over it, and what the desktop had there is lost ({where})",
            fix="log out and in again; lastingly NVreg_PreserveVideoMemoryAllocations=1 with "
            "`sudo systemctl enable nvidia-suspend nvidia-resume nvidia-hibernate` "
            "(NixOS: hardware.nvidia.powerManagement.enable = true), and a newer release where both are set",
            severity="info",
        )
    else:
        yield Finding(
            message=f"errors of programs, not of the GPUs: Xid {', '.join(found.remarks)} ({where})",
            fix="look at the log of the program that these messages name (pid=); "
            "if other programs meet them too, `gpustack verify driver --level full` tests the GPU",
            severity="info",
        )
