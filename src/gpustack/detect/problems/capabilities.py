"""Whether a GPU is older or newer than what a PyTorch is built for, by the range that it prints on another line."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpustack.detect.problems.phrases import Cause, Phrase
from gpustack.detect.problems.signs import logs
from gpustack.detect.scene import Scene
from gpustack.model.host import Problem
from gpustack.patterns import later
from gpustack.versions import version_key

_GPU = later(r"Found GPU\d+ (?P<name>.{1,60}?) which is of (?:cuda|compute) capability (?P<code>\d+\.\d+)")
_RANGE = later(r"^\s*\((?P<least>\d+\.\d+)\) - \((?P<most>\d+\.\d+)\)\s*$", re.MULTILINE)
_LEAST = later(r"[Mm]inimum cuda capability (?:supported by this library|that we support) is (?P<least>\d+\.\d+)")

_OF_BUILD = {
    "environment-architecture": ("this PyTorch has no code for ", "CUDA error 209: "),
    "environment-cpu-build": ("this environment has a PyTorch without CUDA", "this PyTorch ("),
    "environment-driver": ("PyTorch is built for a newer CUDA than the driver runs",),
}
"""What is said of PyTorch's own lines where its build is not known, by what is said where it is."""

_OUTSIDE = "er than this PyTorch "


def follows_from_build(scene: Scene, problems: tuple[Problem, ...]) -> Callable[[Problem], bool]:
    """Which problems only report what PyTorch says because its build, another problem, does not run here."""
    kinds = {one.id for one in problems if one.id in _OF_BUILD and one.message.startswith("torch ")}
    rows = scene.matrix.rows("log-lines", "phrases", Phrase) if kinds else ()
    symptoms = (row.says.partition("{")[0] for row in rows if row.symptom and "PyTorch" in row.says)
    starts = (*(start for kind in kinds for start in _OF_BUILD[kind]), *symptoms)
    of_gpu = "environment-architecture" in kinds
    return lambda one: bool(starts) and (one.message.startswith(starts) or (of_gpu and _OUTSIDE in one.message))


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
