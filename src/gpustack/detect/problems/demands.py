"""Which driver a line of a log demands: by the release of CUDA, or of NVENC's interface, that it names."""

from __future__ import annotations

import re

from msgspec import Struct

from gpustack.detect.problems import cures
from gpustack.detect.scene import Scene
from gpustack.patterns import later
from gpustack.versions import is_within, version_key

_CUDA = later(r"\bcuda ?>= ?(\d+\.\d+)", re.IGNORECASE)
_NVENC = later(r"Required: (\d+\.\d+) Found: \d")


class Headers(Struct, frozen=True, kw_only=True):
    """A release of nv-codec-headers: the interface that it describes, and the first driver with it."""

    api: str = ""
    driver_linux: str = ""


def plan_for(scene: Scene, line: str) -> str:
    """The command that plans the driver which the line demands, "" where the facts know none."""
    least = _least(scene, line)
    return cures.plan(f"driver>={least}") if least else ""


def beyond(scene: Scene, line: str) -> str:
    """Which GPU here has no driver as new as the line demands, and its last branch; "" where each may have one."""
    least = _least(scene, line)
    gpu = next((one for one in scene.gpus if least and one.driver_last and _is_past(least, one.driver_last)), None)
    return f"no driver of {gpu.called} has it ({gpu.driver_last} is its last branch)" if gpu is not None else ""


def _is_past(version: str, branch: str) -> bool:
    return version_key(version.partition(".")[0]) > version_key(branch.partition(".")[0])


def _least(scene: Scene, line: str) -> str:
    """The first driver with what the line demands."""
    cuda, nvenc = _CUDA.search(line), _NVENC.search(line)
    return _of_cuda(scene, cuda[1]) if cuda else _of_nvenc(scene, nvenc[1]) if nvenc else ""


def _of_cuda(scene: Scene, version: str) -> str:
    """The driver that a CUDA belongs to, else the least that it requires."""
    rules = [
        rule
        for rule in scene.matrix.rules("cuda")
        if rule.needs == "driver" and rule.when.os == "linux" and is_within(version, rule.of.removeprefix("cuda"))
    ]
    rules.sort(key=lambda rule: rule.strength != "advised")
    return next((text.removeprefix(">=") for rule in rules for text in rule.any if text.startswith(">=")), "")


def _of_nvenc(scene: Scene, api: str) -> str:
    rows = scene.matrix.rows("nv-codec-headers", "releases", Headers)
    return min((row.driver_linux for row in rows if row.api == api), key=version_key, default="")
