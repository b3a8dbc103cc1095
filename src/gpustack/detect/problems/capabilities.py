"""Whether a GPU is older or newer than what a PyTorch is built for, by the range that it prints on another line."""

from __future__ import annotations

import re

from gpustack.detect.problems.phrases import Cause
from gpustack.detect.problems.signs import logs
from gpustack.detect.scene import Scene
from gpustack.patterns import later
from gpustack.versions import version_key

_GPU = later(r"Found GPU\d+ (?P<name>.{1,60}?) which is of (?:cuda|compute) capability (?P<code>\d+\.\d+)")
_RANGE = later(r"^\s*\((?P<least>\d+\.\d+)\) - \((?P<most>\d+\.\d+)\)\s*$", re.MULTILINE)
_LEAST = later(r"[Mm]inimum cuda capability (?:supported by this library|that we support) is (?P<least>\d+\.\d+)")


def outside(scene: Scene, line: str) -> Cause | None:
    """What PyTorch's warning of a GPU outside of its range means; None where it prints no range."""
    found = _GPU.search(line)
    if found is None:
        return None
    told = next((one for _, text in logs(scene) for one in (_RANGE.search(text), _LEAST.search(text)) if one), None)
    if told is None:
        return None
    code, least, most = found["code"], told["least"], told.groupdict().get("most") or ""
    if version_key(code) < version_key(least):
        says = f"{found['name']} is older than this PyTorch supports (compute capability {code}, it begins at {least})"
        fix = "`gpustack plan torch --method pip` names the newest release and build that has code for it"
    elif most and code.partition(".")[0] == most.partition(".")[0]:
        says = f"no failure: this PyTorch is built up to compute capability {most}, and that code runs on {code} too"
        fix = "nothing has to be done; a later PyTorch does not print it"
    elif most:
        says = f"{found['name']} is newer than this PyTorch (compute capability {code}, it ends at {most})"
        fix = "`gpustack plan torch --method pip` names a build for a newer CUDA, which has code for it"
    else:
        return None
    return Cause(says=says, fix=fix, sure=True)
