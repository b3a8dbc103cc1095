"""The facts as JSON for other programs, and the examples that read them."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpustack import resources
from gpustack.cli import main

ROOT = resources.folder("matrices").parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def export(capsys: pytest.CaptureFixture[str], *what: str) -> str:
    capsys.readouterr()
    assert main(["matrix", "export", *what]) == 0
    return capsys.readouterr().out


def run(name: str, document: str, *words: str) -> Any:
    program = ROOT / "examples" / f"{name}.py"
    command = [sys.executable, "-I", "-S", str(program), *words]  # no package but Python's own
    done = subprocess.run(command, input=document, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("what", ["driver.releases", "nccl"])
def test_the_document_keeps_its_schema_and_names_every_source(capsys: pytest.CaptureFixture[str], what: str) -> None:
    document = json.loads(export(capsys, what))
    assert main(["schema", "facts"]) == 0
    import jsonschema  # two seconds, in every worker

    jsonschema.Draft202012Validator(json.loads(capsys.readouterr().out)).validate(document)
    for table in document["tables"].values():
        assert table["rows"]
        for row in table["rows"]:
            assert set(row["src"]) <= set(document["sources"])
            assert set(row) <= {*table["fields"], "src", "known", "note"}


def test_all_facts_are_the_sum_of_their_subjects(capsys: pytest.CaptureFixture[str]) -> None:
    tables = json.loads(export(capsys))["tables"]
    assert tables["nccl.releases"] == json.loads(export(capsys, "nccl.releases"))["tables"]["nccl.releases"]
    assert len({name.partition(".")[0] for name in tables}) > 30


def test_an_unknown_table_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["matrix", "export", "driver.nothing"]) == 2
    assert "matrix list" in capsys.readouterr().err


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_twenty_lines(path: Path) -> None:
    _, _, code = path.read_text(encoding="utf-8").split('"""', 2)
    assert len([line for line in code.splitlines() if line]) <= 20


def test_endoflife_date_gets_its_list_of_branches(capsys: pytest.CaptureFixture[str]) -> None:
    """Branches that ended, as release-data has them at 029248337d7439be0ed946145ef730b73cd68d6b."""
    found = run("endoflife", export(capsys, "driver.releases"))
    ended = {"r450": "450.248.02", "r470": "470.256.02", "r495": "495.46", "r510": "510.108.03", "r525": "525.147.05"}
    assert {name: found["releases"][f"{name}-linux"]["latest"] for name in ended} == ended
    assert found["releases"]["r450-linux"]["name"] == "r450-linux"
    assert all(one.get("link", "https://").startswith("https://") for one in found["releases"].values())


def test_nixpkgs_gets_the_entries_of_a_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    """An entry as nixpkgs has it at ee7ded0ba23b65480c0f6823045ae0ee2f320806, and a whole manifest of the vendor."""
    document = export(capsys, "cuda-redist.archives")
    nvcc = run("nixpkgs", document, "13.0.2")["cuda_nvcc"]
    assert nvcc["version"] == "13.0.88"
    assert nvcc["linux-x86_64"] == {
        "relative_path": "cuda_nvcc/linux-x86_64/cuda_nvcc-linux-x86_64-13.0.88-archive.tar.xz",
        "sha256": "48e35be3cfbf4b4fbc16828eaec8a7048ee789403049dc409f7b643d6259cf7a",
        "size": "26657716",
    }
    recorded = lzma.decompress((ROOT / "tests/update/bodies/redist.xz").read_bytes()).splitlines()
    body = next(
        one for one in map(json.loads, recorded) if one["address"].endswith("/cuda/redist/redistrib_11.4.2.json")
    )
    manifest = json.loads(body["text"])
    made = run("nixpkgs", document, "11.4.2")
    parts = set(made) - {"release_label", "release_product"}
    assert parts
    for part in parts:
        for key, value in made[part].items():
            theirs = manifest[part][key]
            assert value == (theirs if key == "version" else {name: theirs[name] for name in value})


def test_renovate_gets_versions_and_whole_days(capsys: pytest.CaptureFixture[str]) -> None:
    releases = run("renovate", export(capsys, "cuda.releases"))["releases"]
    dates = {one["version"]: one.get("releaseTimestamp") for one in releases}
    assert dates["13.0.2"] == "2025-10-09T00:00:00Z"
    assert all(date is None or len(date) == len("2025-10-09T00:00:00Z") for date in dates.values())
