"""The one function that the command line and scripts call: a host from this machine, or from a tree."""

from __future__ import annotations

from pathlib import Path

from gpustack.detect.build import host_of
from gpustack.detect.gather import gather
from gpustack.detect.record import read_record
from gpustack.matrix.index import Matrix
from gpustack.model.host import Host


def detect(root: Path | None, matrix: Matrix) -> Host:
    """The host at ``root``: a file system tree, or a folder that ``--record`` wrote; None is this machine.

    Raises UsageError where ``root`` is no folder, and nothing for what is found inside.
    """
    evidence = read_record(root) if root is not None else None
    return host_of(evidence if evidence is not None else gather(root), matrix)
