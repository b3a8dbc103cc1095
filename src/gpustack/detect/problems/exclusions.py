"""Settings of package managers by which the driver or the kernel is never changed, in addition to holds and locks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene
from gpustack.patterns import later

_WORDS = later(r"nvidia|cuda|cudnn|nccl|tensorrt|(?<![\w-])(?:kernel|linux)(?![\w])[*\w-]*")
_FILES = {
    "/etc/dnf/dnf.conf": r"(?m)^\s*(exclude(?:pkgs)?)\s*=\s*(.+)$",
    "/etc/yum.conf": r"(?m)^\s*(exclude(?:pkgs)?)\s*=\s*(.+)$",
    "/etc/pacman.conf": r"(?m)^\s*(IgnorePkg|IgnoreGroup)\s*=\s*(.+)$",
}


@detects("detect-excluded-packages")
def excluded(scene: Scene) -> Iterator[Finding]:
    """Names that dnf or pacman excludes from every transaction."""
    for path, pattern in _FILES.items():
        for match in re.finditer(pattern, scene.evidence.text(path) or ""):
            names = [name for name in match[2].replace(",", " ").split() if _WORDS.search(name)]
            if names:
                yield Finding(
                    message=f"{path} has {match[1]} = {' '.join(names)}: these packages are neither installed nor "
                    "upgraded, so that module, libraries and kernel can part",
                    fix=f"take them out of {match[1]} there while the driver is installed or upgraded",
                    severity="info",
                    reboot=False,
                )
                break


@detects("detect-negative-pin")
def negative_pin(scene: Scene) -> Iterator[Finding]:
    """A pin of apt by which packages of the driver are never installed."""
    for path, text in sorted(scene.evidence.files.items()):
        if not path.startswith("/etc/apt/preferences"):
            continue
        for stanza in re.split(r"\n\s*\n", text):
            names = re.search(r"(?m)^Package:\s*(.+)$", stanza)
            level = re.search(r"(?m)^Pin-Priority:\s*(-\d+)\s*$", stanza)
            if names and level and re.search(r"nvidia|cuda|nvinfer|cudnn", names[1]):
                yield Finding(
                    message=f"{path} pins {names[1].strip()} to {level[1]}: apt never installs these packages (has no "
                    "installation candidate)",
                    fix=f"`sudo rm {path}`, or raise that Pin-Priority above 0",
                    severity="info",
                    reboot=False,
                )
                return
