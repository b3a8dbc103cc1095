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
import regenerate_gpu_lists as gpu_lists
import regenerate_image_tags as image_tags

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


def test_lists_of_gpus_begin_where_every_later_list_of_the_branch_has_the_gpu() -> None:
    lists = {
        "550.1": {"aaaa"},
        "550.2": {"aaaa", "bbbb", "cccc"},
        "550.10": {"aaaa", "bbbb"},
        "560.1": {"cccc"},
    }
    assert gpu_lists.firsts(lists) == {
        "aaaa": {"550": "550.1"},
        "bbbb": {"550": "550.2"},
        "cccc": {"560": "560.1"},
    }


def test_lists_of_gpus_are_written_in_the_form_of_the_file() -> None:
    written = gpu_lists.regenerate({"580.1": {"2335"}, "580.2": {"2335", "2c3a"}}, {"470.1": {"0fc0"}})
    head = gpu_lists.TABLE.read_text(encoding="utf-8").partition("  branches:")[0]
    assert written.startswith(head)
    assert "{list: open, branch: 580, first: 580.1, last: 580.2, src: [openreadme]}" in written
    assert "{device: 0x2c3a, open: [580.2], src: [openreadme]}" in written
    assert "{device: 0x0fc0, own: [470.1], src: [ubuntu, suse]}" in written


def test_tags_of_images_are_read_out_of_both_documents(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    (first / "supported-tags.md").write_text(
        "- [`13.0.2-base-ubi9` (*13.0.2/ubi9/base/Dockerfile*)](https://example.org)\n- `latest`\n- `12.6-base-ubi9`\n"
    )
    (first / "unsupported-tags.md").write_text("- `13.0.2-cudnn-devel-ubi9`\n- `9.2.1-base-ubi9`\n")
    (second / "supported-tags.md").write_text("- `13.0.2-base-ubi9`\n")
    (second / "unsupported-tags.md").write_text("")
    head = image_tags.TABLE.read_text(encoding="utf-8").partition("    rows:\n")[0] + "    rows:\n"
    table = tmp_path / "cuda-image-tags.yaml"
    table.write_text(head, encoding="utf-8")

    written = image_tags.regenerate([("tags_2025_08", first), ("tags_2025_12", second)], table)

    assert written == head + (
        "      - {cuda: 9.2.1, system: ubi9, kinds: [base], src: [tags_2025_08]}\n"
        "      - {cuda: 13.0.2, system: ubi9, kinds: [base, cudnn-devel], src: [tags_2025_08, tags_2025_12]}\n"
    )
