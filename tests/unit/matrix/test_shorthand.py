"""The short forms of a matrix file: groups, bounds, rows for release lines, and names that nobody saw."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gpustack import resources
from gpustack.errors import MatrixError
from gpustack.matrix.compile import read_bounds
from gpustack.matrix.index import load_matrix
from gpustack.matrix.layout import BOUNDS, matrix_files
from gpustack.matrix.load import read_subject
from gpustack.matrix.shorthand import MOST
from gpustack.model.facts import COMPONENTS

FILE = """\
schema: gpustack/matrix/v1
subject: cuda-packages
about: packages
sources:
  page: {address: "https://docs.nvidia.com/cuda/", known: stated, read: 2026-11-21}
groups:
  lines: [12.9, 13.0, 13.1]
  ubuntu: [ubuntu2204, ubuntu2404]
tables:
  packages:
    about: packages
    key: [versions]
    fields: {versions: range, packages: list of word, repos: list of word, pin: text, composed: bool}
    rows:
      - {versions: ">=13.0,<=@newest", each: ["@lines"], packages: ["kit-{line-dashed}"], pin: "{line}-1", \
repos: ["@ubuntu", debian12], src: [page]}
  seen_names:
    about: names
    key: [names]
    fields: {names: list of word}
    rows:
      - {names: [kit-13-0], src: [page]}
"""
BOUND = {"newest": "13.4"}


def rows_of(folder: Path, text: str) -> list[dict[str, Any]]:
    path = folder / "cuda-packages.yaml"
    path.write_text(text)
    return read_subject(path, bounds=BOUND).tables["packages"].rows


def test_a_row_stands_for_every_line_and_group_that_it_names(tmp_path: Path) -> None:
    first, second = rows_of(tmp_path, FILE)
    repos = ["ubuntu2204", "ubuntu2404", "debian12"]
    assert (first["versions"], first["packages"], first["pin"], first["repos"]) == (
        "==13.0.*",
        ["kit-13-0"],
        "13.0-1",
        repos,
    )
    assert (second["versions"], second["packages"], second["repos"]) == ("==13.1.*", ["kit-13-1"], repos)


def test_a_name_that_nobody_saw_is_marked(tmp_path: Path) -> None:
    first, second = rows_of(tmp_path, FILE)
    assert "composed" not in first
    assert second["composed"] is True


def test_a_bound_is_filled_in_where_a_range_names_it(tmp_path: Path) -> None:
    plain = '      - {versions: ">=13.0,<=@newest", packages: [kit], src: [page]}\n  seen_names:'
    *_, row = rows_of(tmp_path, FILE.replace("  seen_names:", plain))
    assert row["versions"] == ">=13.0,<=13.4"


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ('"@ubuntu"', '"@ubunto"', "packages: row 1 (>=13.0,<=@newest): field 'repos': there is no group 'ubunto'"),
        ("<=@newest", "<=@oldest", "packages: row 1 (>=13.0,<=@oldest): field 'versions': there is no bound 'oldest'"),
        ('"@lines"', '"@line"', "row 1 (>=13.0,<=@newest): field 'each': there is no group 'line'"),
        (">=13.0,<=@newest", ">=14.0", "row 1 (>=14.0): field 'each': none of the lines is within '>=14.0'"),
        ("ubuntu: [ubuntu2204, ", "debian: [debian13]\n  ubuntu: [", "group 'debian' is named by no row"),
        ("ubuntu: [ubuntu2204", "ubuntu: ['@lines'", "group 'ubuntu' names another group"),
        ("ubuntu: [ubuntu2204, ubuntu2404]", "ubuntu: ubuntu2204", "group 'ubuntu' has to be a list of words"),
        (", composed: bool", "", "field 'composed' is not declared"),
    ],
)
def test_a_fault_of_a_short_form_names_file_row_and_field(tmp_path: Path, wrong: str, right: str, message: str) -> None:
    assert wrong in FILE
    with pytest.raises(MatrixError) as caught:
        rows_of(tmp_path, FILE.replace(wrong, right))
    told = f"{caught.value.where}: {caught.value.message}"
    assert message in told
    assert "cuda-packages.yaml" in told


def test_a_file_cannot_stand_for_more_than_a_machine_holds(tmp_path: Path) -> None:
    many = ", ".join(f"w{number}" for number in range(1000))
    rows = "      - {versions: '==1', packages: [x], repos: ['@ubuntu'], src: [page]}\n" * (MOST // 1000 + 1)
    text = FILE.replace("ubuntu2204, ubuntu2404", many).replace("  seen_names:", f"{rows}  seen_names:")
    with pytest.raises(MatrixError, match=f"stand for more than {MOST} items"):
        rows_of(tmp_path, text)


def test_an_overlay_names_bounds_and_groups_but_moves_no_bound(tmp_path: Path) -> None:
    overlay = (
        "schema: gpustack/matrix/v1\nsubject: driver-packages\n"
        'sources:\n  ours: {address: "https://wiki.example.com/gpu", known: tested}\n'
        "groups:\n  ours: [ubuntu2404]\n"
        "tables:\n  packages:\n    rows:\n"
        "      - {component: driver, method: network, family: apt, versions: '<=@driver-610-served', packages: [our-driver],"
        " role: main, repos: ['@ours'], src: [ours]}\n"
    )
    (tmp_path / "driver-packages.yaml").write_text(overlay)
    row = next(one for one in load_matrix(tmp_path).packages("driver") if one.packages == ("our-driver",))
    assert row.repos == ("ubuntu2404",)
    assert row.versions == f"<={read_bounds(matrix_files(resources.folder('matrices')))['driver-610-served']}"
    (tmp_path / "bounds.yaml").write_text(
        "schema: gpustack/matrix/v1\nsubject: bounds\n"
        'sources:\n  ours: {address: "https://wiki.example.com/gpu", known: tested}\n'
        "tables:\n  bounds:\n    rows:\n      - {name: cuda-served, version: 13.9, src: [ours]}\n"
    )
    with pytest.raises(MatrixError, match="an overlay cannot change"):
        load_matrix(tmp_path)


def test_every_bound_is_named_by_a_range() -> None:
    files = matrix_files(resources.folder("matrices"))
    texts = [path.read_text(encoding="utf-8") for name, path in files.items() if name != BOUNDS]
    named = set(re.findall(r"[<>=]@([a-z0-9-]+)", "\n".join(texts)))
    assert named == set(read_bounds(files))


def test_only_rows_that_say_so_have_a_name_that_was_not_seen() -> None:
    """No name that a plan installs by itself is a guess: what is left are cross packages of old release lines."""
    facts = load_matrix()
    composed = [row for component in COMPONENTS for row in facts.packages(component) if row.composed]
    assert {row.role for row in composed} == {"cross-sbsa", "cross-aarch64"}
    assert not [row for row in facts.packages("cuda") if "{" in " ".join(row.packages)]
