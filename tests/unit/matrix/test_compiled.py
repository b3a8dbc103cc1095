"""The compiled form says exactly what the YAML files say, and is made again when they change."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gpustack
from gpustack import resources
from gpustack.matrix.check import faults
from gpustack.matrix.compile import compile_folder, read_bounds
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.matrix.layout import PARTED, matrix_files
from gpustack.matrix.load import read_subject
from gpustack.matrix.packed import ROWS, Packed, pack
from gpustack.matrix.store import Store
from gpustack.model.facts import COMPONENTS, Rule
from gpustack.versions import is_within


def test_every_invariant_holds() -> None:
    assert faults() == []


def test_compiled_rows_equal_the_files_rows() -> None:
    folder = resources.folder("matrices")
    matrix = load_matrix()
    files = matrix_files(folder)
    for path in files.values():
        subject = read_subject(path, bounds=read_bounds(files))
        for name, table in subject.tables.items():
            rows: list[dict[str, Any]] = [dict(row) for row in matrix.rows(subject.name, name, dict)]
            for row in rows:
                row["src"] = [key.removeprefix(f"{subject.name}/") for key in row["src"]]
                row.pop("words" if "like" in table.fields else "", None)  # computed of ``like``
            assert rows == table.rows, f"{subject.name}.{name}"


def test_a_subject_whose_file_changed_is_compiled_again_and_the_others_are_kept() -> None:
    folder = resources.folder("matrices")
    stamps = {path.stem: (1, 1) for path in folder.glob("nv-codec-headers.yaml")}
    index, blobs = compile_folder(folder, stamps)
    again, same = compile_folder(folder, dict.fromkeys(stamps, (2, 2)), (folder, index))
    assert blobs == same
    assert all(entry.stamp == (2, 2) for entry in again.subjects.values())
    assert Matrix(Store(again, None, same)).releases("nv-codec-headers")


def test_packed_facts_are_the_compiled_ones_and_hold_no_row_twice(tmp_path: Path) -> None:
    folder = resources.folder("matrices")
    index, blobs = compile_folder(folder, dict.fromkeys(matrix_files(folder), (0, 0)))
    contents = pack(blobs)
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    packed = Packed(tmp_path)
    assert {name: packed.blob(name) for name in blobs} == blobs
    assert packed.blob("no-such-file") is None
    parted = {f"{subject}.{table}" for subject, entry in index.subjects.items() for table in entry.tables}
    parted = {name for name in parted if name.partition(".")[2] in PARTED}
    assert len(contents[ROWS]) == sum(len(blob) for name, blob in blobs.items() if name not in parted)


def test_what_is_worked_out_beforehand_is_what_the_ranges_say() -> None:
    matrix = load_matrix()
    for component in COMPONENTS:
        rules = matrix.rules(component)
        assert set(matrix.binding(component)) == {row.version for row in matrix.releases(component)}
        for version, places in matrix.binding(component).items():
            subjects = (rule.of.removeprefix(component) for rule in rules)
            assert places == [place for place, text in enumerate(subjects) if is_within(version, text)], component


def test_every_source_key_resolves_to_an_address() -> None:
    matrix = load_matrix()
    for rule in matrix.everywhere("rules", Rule):
        assert len(matrix.addresses(rule.src)) >= 1, rule.id


def test_an_installation_without_its_facts_says_so(tmp_path: Path) -> None:
    """Every answer would be "unknown" there, which looks like one."""
    shutil.copytree(Path(gpustack.__file__).parent, tmp_path / "gpustack", ignore=shutil.ignore_patterns("compiled"))
    done = subprocess.run(
        [sys.executable, "-m", "gpustack", "check", "cuda==13.0.2", "--os", "ubuntu24.04"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "the facts of this installation are missing" in done.stderr
    assert "hint: reinstall gpustack" in done.stderr


@pytest.mark.parametrize("words", [("nvidia-cudnn-cu12",), ("geforce", "5090"), ("2331",), ("no such word",), ("a",)])
def test_a_search_finds_the_rows_that_hold_the_words(words: tuple[str, ...]) -> None:
    matrix = load_matrix()
    for subject, table in (("gpus", "products"), ("wheels", "archives")):
        found = matrix.rows_with(subject, table, dict, words)
        rows = matrix.rows(subject, table, dict)
        texts = (" ".join(map(str, row.values())).lower() for row in rows)
        wanted = [row for row, text in zip(rows, texts, strict=True) if all(word in text for word in words)]
        assert [row for row in found if row in wanted] == wanted
        assert list(found) == [row for row in rows if row in found]
