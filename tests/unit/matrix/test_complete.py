"""``matrix check --complete``: what a release lacks that the one before it had."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpustack.errors import UsageError
from gpustack.matrix.complete import lacking
from gpustack.matrix.index import load_matrix

HEAD = """\
schema: gpustack/matrix/v1
subject: {subject}
sources:
  ours: {{address: "https://wiki.example.com/gpu", known: tested}}
tables:
  {table}:
    rows:
      - {row}
"""
RELEASE = "{version: 13.9.1, date: 2030-01-31, status: released, src: [ours]}"


def overlay(folder: Path, subject: str, table: str, row: str) -> None:
    (folder / f"{subject}.yaml").write_text(HEAD.format(subject=subject, table=table, row=row))


def test_a_release_that_stands_in_one_table_only_lacks_all_the_others(tmp_path: Path) -> None:
    overlay(tmp_path, "cuda", "releases", RELEASE)
    before, found = lacking(load_matrix(tmp_path), "cuda", "13.9.1")
    assert before.version == "13.4.2"
    told = "\n".join(found)
    assert "cuda.yaml: releases: column driver_branch of 13.9.1 is empty" in found
    assert "cuda.yaml: rules: none of the" in told
    for place in ("cuda-packages.yaml: packages", "repositories.yaml: availability", "cuda-redist.yaml: archives"):
        assert f"{place}: none of the" in told
    assert "wheels.yaml: archives: none of the" in told


def test_what_was_added_is_named_no_more(tmp_path: Path) -> None:
    overlay(tmp_path, "cuda", "releases", RELEASE)
    overlay(
        tmp_path,
        "repositories",
        "availability",
        '{component: cuda, method: network, repo: rhel10, arch: [x86_64], versions: ">=13.0,<=13.9.1", src: [ours]}',
    )
    _, found = lacking(load_matrix(tmp_path), "cuda", "13.9.1")
    missing = [line for line in found if line.startswith("repositories.yaml: availability")]
    assert "repositories.yaml: availability: component cuda method network repo rhel10 arch sbsa" in missing
    assert "repositories.yaml: availability: component cuda method network repo rhel10 arch x86_64" not in missing


def test_a_rule_that_ends_before_the_release_is_named_by_what_it_asks_for(tmp_path: Path) -> None:
    row = '{id: ours, of: "cuda==13.9.*", needs: glibc, any: [">=2.28"], when: {os: linux}, strength: advised, src: [ours]}'
    text = HEAD.format(subject="cuda", table="releases", row=RELEASE) + f"  rules:\n    rows:\n      - {row}\n"
    (tmp_path / "cuda.yaml").write_text(text)
    _, found = lacking(load_matrix(tmp_path), "cuda", "13.9.1")
    rules = [line for line in found if line.startswith("cuda.yaml: rules")]
    assert "cuda.yaml: rules: needs driver when os linux strength required" in rules
    assert "cuda.yaml: rules: needs glibc when os linux strength advised" not in rules


def test_the_newest_release_of_cuda_lacks_the_installers_that_were_not_found() -> None:
    before, found = lacking(load_matrix(), "cuda", "13.4.2")
    assert before.version == "13.4.1"
    assert "cuda-installers.yaml: archives: component cuda method runfile platform linux-x86_64" in found
    assert not [line for line in found if "availability" in line or "packages" in line or "wheels" in line]


@pytest.mark.parametrize(
    ("text", "told"), [("13.9.9", "unknown release cuda 13.9.9"), ("7.5.18", "no release comes before")]
)
def test_a_release_that_is_not_known_or_the_first_is_a_usage_error(text: str, told: str) -> None:
    facts = load_matrix()
    first = facts.releases("cuda")[-1].version
    with pytest.raises(UsageError, match=told):
        lacking(facts, "cuda", first if "before" in told else text)
