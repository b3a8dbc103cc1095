"""The problems of a machine: one small function for each conflict that evidence can show."""

from __future__ import annotations

from gpustack.detect.problems import (
    builds,
    containers,
    drivers,
    engines,
    evidence,
    guests,
    kernels,
    libraries,
    mismatch,
    platforms,
    repositories,
    signing,
    states,
    toolkits,
)
from gpustack.detect.problems.registry import DETECTORS, Finding, find_problems

__all__ = [
    "DETECTORS", "Finding", "builds", "containers", "drivers", "engines", "evidence",
    "find_problems", "guests", "kernels", "libraries", "mismatch",
    "platforms", "repositories", "signing", "states", "toolkits",
]  # fmt: skip
