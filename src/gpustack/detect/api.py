"""The one function that the command line and scripts call: a host from this machine, or from a tree."""

from __future__ import annotations

from pathlib import Path

from gpustack.detect.build import host_of
from gpustack.detect.gather import gather
from gpustack.matrix.index import Matrix
from gpustack.model.host import Host


def detect(root: Path | None, matrix: Matrix) -> Host:
    """The host at ``root`` (None: this machine). Raises UsageError where ``root`` is no folder, and for nothing else."""
    return host_of(gather(root), matrix)
