"""What is wrong with a machine: one small function for each conflict that evidence can show."""

from __future__ import annotations

from gpustack.detect.problems import (
    absent,
    builds,
    containers,
    direct,
    drivers,
    engines,
    evidence,
    exclusions,
    fabric,
    guests,
    images,
    kernels,
    libraries,
    lines,
    links,
    loading,
    logs,
    mismatch,
    pairs,
    passthrough,
    pieces,
    platforms,
    repositories,
    sandboxes,
    settings,
    signing,
    signs,
    states,
    toolkits,
    variables,
)
from gpustack.detect.problems.registry import DETECTORS, Finding, find_problems

__all__ = [
    "DETECTORS", "Finding", "absent", "builds", "containers", "direct", "drivers", "engines", "evidence",
    "exclusions", "fabric", "find_problems", "guests", "images", "kernels", "libraries", "lines", "links", "loading",
    "logs", "mismatch", "pairs", "passthrough", "pieces", "platforms", "repositories", "sandboxes", "settings",
    "signing", "signs", "states", "toolkits", "variables",
]  # fmt: skip
