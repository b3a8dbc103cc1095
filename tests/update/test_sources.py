"""What a source makes of its form, where a whole recorded body would not show it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpustack import resources
from update.daily import next_manifests
from update.record import Body, SourceError
from update.sources import csaf, gpu_lists, image_tags, source
from update.tables import Facts

ROOT = resources.folder("matrices").parent
COPY, OTHER_COPY = image_tags.SOURCES


def test_a_source_is_a_module_of_at_most_120_lines() -> None:
    modules = (ROOT / "ci" / "update" / "sources").glob("*.py")
    assert {path.name for path in modules if len(path.read_text().splitlines()) > 120} == set()


def test_the_index_of_bulletins_names_those_of_known_products() -> None:
    head = "CVE;CVSS;Severity;Vector;CWE;Bulletin;Affected Product;Affected Version;Fixed In"
    line = "CVE-2026-1;7.8;HIGH;CVSS:3.1/AV:L;CWE-416;{};{};All driver versions prior to 591.59;591.59, 582.16"
    rows = [head, line.format(5747, "GeForce"), line.format(5747, "Tesla"), line.format(5738, "NSIGHT Graphics")]
    index = Body(csaf.INDEX.format(year=2026), "2026-11-23", "\n".join(rows).encode())
    assert csaf.listed(index) == ["5747"]
    for wrong in ("CVE;CVSS", f"{head}\nCVE-2026-1;7.8", f"{head}\n{line.format('?', 'GeForce')}"):
        with pytest.raises(SourceError, match=r"CVE_index\.csv: has the "):
            csaf.listed(index._replace(data=wrong.encode()))


def test_manifests_that_may_be_next_follow_the_newest_of_each_line() -> None:
    names = [address.rpartition("/")[2] for address in next_manifests(Facts())]
    assert {"redistrib_12.9.3.json", "redistrib_13.0.4.json", "redistrib_14.0.0.json"} <= set(names)
    assert len(names) == len(set(names)) < 120


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
    done = command("reproduce", "--lacking")
    assert done.returncode == 0
    assert re.search(r"(?m)^(\d+) of (\d+) checksums come out, 2 are of files that were made here$", done.stdout)
    assert "security.bulletins: 24 of 24 rows whole, 0 in part" in done.stdout.splitlines()
    assert done.stdout.splitlines()[-1].endswith("in part")


@pytest.mark.gate
def test_help_has_an_example() -> None:
    assert "ci/update read SOURCE ADDRESS" in command("--help").stdout
