"""The problems of a machine: one small function for each conflict that evidence can show."""

from __future__ import annotations

from gpustack.detect.problems import (
    containers,
    drivers,
    evidence,
    kernels,
    libraries,
    platforms,
    repositories,
    toolkits,
)
from gpustack.detect.problems.registry import DETECTORS, Finding, find_problems

__all__ = [
    "DETECTORS", "Finding", "containers", "drivers", "evidence", "find_problems", "kernels", "libraries", "platforms",
    "repositories", "toolkits",
]  # fmt: skip
