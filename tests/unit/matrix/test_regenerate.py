"""The archives of CUDA come out of the vendor's manifests as they stand in the facts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gpustack import resources

sys.path.insert(0, str(resources.folder("matrices").parent / "ci"))

import regenerate_archives as program

RECORDED = Path(__file__).parents[2] / "fixtures" / "manifests"


def test_a_recorded_manifest_gives_the_rows_that_stand_there() -> None:
    assert program.regenerate(RECORDED) == program.TABLE.read_text(encoding="utf-8")


def test_a_release_is_written_anew_where_its_rows_are_gone(tmp_path: Path) -> None:
    whole = program.TABLE.read_text(encoding="utf-8")
    (manifest,) = RECORDED.glob("*.json")
    release = manifest.stem.removeprefix("redistrib_")
    cut = tmp_path / "cuda-redist.yaml"
    cut.write_text("".join(line for line in whole.splitlines(True) if f"version: {release}," not in line))
    assert cut.read_text() != whole
    assert program.regenerate(RECORDED, cut) == whole


@pytest.mark.parametrize("name", ["redistrib_99.0.0.json", "redistrib_13.4.2.json"])
def test_a_manifest_that_is_not_known_by_its_sum_is_refused(tmp_path: Path, name: str) -> None:
    content: dict[str, Any] = {"release_label": "99.0.0"}
    (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"cuda-manifests.yaml has .* for"):
        program.regenerate(tmp_path)
