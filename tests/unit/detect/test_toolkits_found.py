"""Which folders are CUDA toolkits."""

from __future__ import annotations

import pytest

from gpustack.detect.evidence import Evidence
from gpustack.detect.parse.toolkit import find_toolkits


@pytest.mark.parametrize(
    ("folder", "found"),
    [("cuda-13.0", ["/usr/local/cuda-13.0"]), ("cuda-13.0.old", []), ("cuda-13.0-backup", []), ("cuda-13.0.2", [])],
)
def test_a_folder_that_was_moved_aside_is_no_toolkit(folder: str, found: list[str]) -> None:
    evidence = Evidence(marks={f"/usr/local/{folder}/bin/nvcc": "program"})
    assert [kit.path for kit in find_toolkits(evidence, ())] == found
