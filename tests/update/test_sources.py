"""What a source makes of its form, where a whole recorded body would not show it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpustack import resources
from update.record import Body
from update.sources import gpu_lists, image_tags, source

ROOT = resources.folder("matrices").parent
COPY, OTHER_COPY = image_tags.SOURCES


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


def test_tags_of_images_are_read_out_of_all_documents() -> None:
    bodies = (
        Body(
            f"{COPY}supported-tags.md",
            "2026-11-23",
            b"- [`13.0.2-base-ubi9` (*ubi9*)](x)\n- `latest`\n- `12.6-base-ubi9`\n",
        ),
        Body(f"{COPY}unsupported-tags.md", "2026-11-23", b"- `13.0.2-cudnn-devel-ubi9`\n- `9.2.1-base-ubi9`\n"),
        Body(f"{OTHER_COPY}supported-tags.md", "2026-11-23", b"- `13.0.2-base-ubi9`\n"),
    )
    found = {one.row["cuda"]: one.row for one in source("image_tags").rows(bodies).rows}
    assert set(found) == {"9.2.1", "13.0.2"}
    assert found["13.0.2"]["kinds"] == ["base", "cudnn-devel"]
    assert found["13.0.2"]["src"] == ["tags_2025_08", "tags_2025_12"]


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "ci/update", *words], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.gate
def test_files_below_an_address_are_read_and_nothing_is_written(tmp_path: Path) -> None:
    page = tmp_path / "redistrib_99.0.0.json"
    page.write_text("<html>", encoding="utf-8")
    done = command("read", "redist", str(page), "--home", "https://developer.download.nvidia.com/compute/cuda/redist/")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "https://developer.download.nvidia.com/compute/cuda/redist/redistrib_99.0.0.json: is a page and not JSON"
    ]


@pytest.mark.gate
def test_reproduce_prints_the_share_of_the_facts() -> None:
    done = command("reproduce")
    assert done.returncode == 0
    assert "security.bulletins: 23 of 24 rows whole, 0 in part" in done.stdout.splitlines()
    assert done.stdout.splitlines()[-1].endswith("in part")


@pytest.mark.gate
def test_help_has_an_example() -> None:
    assert "ci/update read SOURCE ADDRESS" in command("--help").stdout
