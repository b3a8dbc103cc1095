"""Matrix files: what is accepted, and that every fault is told with file, table, row and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpustack.errors import MatrixError
from gpustack.matrix.check import faults
from gpustack.matrix.index import load_matrix
from gpustack.matrix.load import read_subject

GOOD = """\
schema: gpustack/matrix/v1
subject: cuda
about: CUDA
sources:
  page: {address: "https://docs.nvidia.com/cuda/", known: stated, read: 2026-11-21}
tables:
  releases:
    about: releases
    key: [version]
    fields: {version: version, date: date, os: list of word}
    rows:
      - {version: 99.10.0, date: 2030-01-31, os: [linux, windows], src: [page]}
"""


def written(folder: Path, text: str, name: str = "cuda.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_every_scalar_stays_a_string_where_yaml_would_guess(tmp_path: Path) -> None:
    text = GOOD.replace("99.10.0", "12.10")
    row = read_subject(written(tmp_path, text)).tables["releases"].rows[0]
    assert row == {
        "version": "12.10",
        "date": "2030-01-31",
        "os": ["linux", "windows"],
        "src": ["page"],
        "known": "stated",
    }


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ("schema: gpustack/matrix/v1", "schema: gpustack/matrix/v9", "schema is 'gpustack/matrix/v9'"),
        ("src: [page]", "src: [pages]", "row 1 (99.10.0): field 'src': 'pages' is not among the sources"),
        (", src: [page]", "", "row 1 (99.10.0): field 'src' is missing"),
        ("date: 2030-01-31", "date: soon", "row 1 (99.10.0): field 'date': 'soon' is not a date"),
        ("date: 2030-01-31", "dat: 2030", "row 1 (99.10.0): field 'dat' is not declared"),
        ("version: 99.10.0", "version: newest", "field 'version': 'newest' is not a version"),
        ("os: [linux, windows]", "os: linux", "field 'os': is not a list"),
        ("known: stated", "known: sure", "source 'page': known has to be one of"),
        ("subject: cuda", "subject: cuda\nsubject: cudnn", "key 'subject' occurs twice"),
        ("fields: {version: version", "fields: {version: number9", "unknown kind 'number9'"),
    ],
)
def test_a_fault_names_file_row_and_field(tmp_path: Path, wrong: str, right: str, message: str) -> None:
    path = written(tmp_path, GOOD.replace(wrong, right))
    with pytest.raises(MatrixError) as caught:
        read_subject(path)
    assert message in f"{caught.value.where}: {caught.value.message}"
    assert str(path) in caught.value.where
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "text",
    [
        '!!python/object/apply:os.system ["touch /tmp/gpustack-test-pwned"]\n',
        "- a list\n",
        "a: [1\n",
        "{" * 5000,
        "\x00\x01",
        "&a [*a]\n",
    ],
)
def test_hostile_files_are_refused_and_nothing_runs(tmp_path: Path, text: str) -> None:
    with pytest.raises(MatrixError):
        load_matrix(written(tmp_path, text).parent)
    assert not Path("/tmp/gpustack-test-pwned").exists()  # noqa: S108 (the very path that the file asks for)


def test_an_overlay_adds_a_release_without_touching_the_rest(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    plain, overlaid = load_matrix(), load_matrix(tmp_path)
    assert overlaid.releases("cuda")[0].version == "99.10.0"
    assert overlaid.releases("cuda")[1:] == plain.releases("cuda")
    assert overlaid.releases("cudnn") == plain.releases("cudnn")
    assert overlaid.digest != plain.digest


def test_an_overlay_row_replaces_the_row_with_its_key(tmp_path: Path) -> None:
    newest = load_matrix().releases("cuda")[0]
    text = GOOD.replace("99.10.0", newest.version)
    written(
        tmp_path,
        text.replace("    key: [version]\n", "").replace(
            "    fields: {version: version, date: date, os: list of word}\n", ""
        ),
    )
    changed = load_matrix(tmp_path).releases("cuda")[0]
    assert (changed.version, changed.date) == (newest.version, "2030-01-31")


def test_an_overlay_can_bring_a_subject_of_its_own(tmp_path: Path) -> None:
    written(tmp_path, GOOD.replace("subject: cuda", "subject: house-rules"), "house.yaml")
    assert "house-rules" in load_matrix(tmp_path).subjects


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MatrixError, match="is not a folder"):
        load_matrix(tmp_path / "nowhere")


def test_a_folder_that_offers_drivers_without_naming_their_packages_is_a_fault(tmp_path: Path) -> None:
    """The plan would take another method there, and nothing would say why."""
    (tmp_path / "repositories.yaml").write_text(
        "schema: gpustack/matrix/v1\nsubject: repositories\n"
        "sources:\n  ours: {address: 'https://wiki.example.com/gpu', known: tested}\n"
        "tables:\n  repositories:\n    rows:\n"
        "      - {repo: ubuntu2804, arch: x86_64, family: apt, url: 'https://example.com/ubuntu2804', src: [ours]}\n"
        "  availability:\n    rows:\n"
        "      - {component: driver, method: network, repo: ubuntu2804, arch: [x86_64], versions: '>=610', src: [ours]}\n"
        "      - {component: cuda, method: network, repo: ubuntu2804, arch: [x86_64], versions: '>=13.4', src: [ours]}\n"
    )
    assert faults(tmp_path) == [
        "availability driver in ubuntu2804: no row of packages names its packages for this folder"
        " (field 'repos', or its group)"
    ]
