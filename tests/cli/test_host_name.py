"""Documents carry the host's name, unless it is recorded or to stay anonymous; no plan depends on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Call


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/os-release").write_text('ID=ubuntu\nVERSION_ID="24.04"\n')
    (root / "etc/hostname").write_text("gpu-node-17\n")
    (root / "var/lib/dpkg").mkdir(parents=True)
    (root / "var/lib/dpkg/arch").write_text("amd64\n")
    return root


def document(call: Call, *words: str) -> dict[str, Any]:
    done = call(*words, "--format", "json")
    assert done.code in {0, 1}, done.err
    made: dict[str, Any] = json.loads(done.out)
    return made


def test_a_host_a_plan_and_a_report_name_it(call: Call, tree: Path) -> None:
    root = ("--root", str(tree))
    assert document(call, "detect", *root)["name"] == "gpu-node-17"
    assert document(call, "plan", "cuda", *root)["host"]["name"] == "gpu-node-17"
    assert document(call, "verify", "cuda", *root)["host"]["name"] == "gpu-node-17"
    assert "host         gpu-node-17" in call("detect", *root).out.splitlines()


@pytest.mark.parametrize("words", [("detect",), ("plan", "cuda"), ("verify", "cuda")])
def test_anonymous_leaves_it_out(call: Call, tree: Path, words: tuple[str, ...]) -> None:
    made = document(call, *words, "--root", str(tree), "--anonymous")
    assert "gpu-node-17" not in json.dumps(made)


def test_a_record_leaves_it_out(call: Call, tree: Path, tmp_path: Path) -> None:
    folder = tmp_path / "record"
    assert call("detect", "--root", str(tree), "--record", str(folder)).code == 0
    assert all(b"gpu-node-17" not in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_equal_hosts_of_other_names_have_equal_plans_but_for_the_name(call: Call, tree: Path) -> None:
    one = document(call, "plan", "cuda", "--root", str(tree))
    (tree / "etc/hostname").write_text("gpu-node-18\n")
    other = document(call, "plan", "cuda", "--root", str(tree))
    assert one["host_digest"] == other["host_digest"]
    assert one["steps"] == other["steps"]


@pytest.mark.parametrize("text", ["", "\n", "a b", "-x", "x" * 300, "\x1b[31mred", "../../etc"])
def test_what_is_no_name_is_none(call: Call, tree: Path, text: str) -> None:
    (tree / "etc/hostname").write_text(text)
    assert "name" not in document(call, "detect", "--root", str(tree))
