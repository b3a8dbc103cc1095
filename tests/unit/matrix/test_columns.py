"""What a table's head calls for people is what no code reads, and nothing else."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

from gpustack import resources
from gpustack.matrix.layout import BOUNDS, matrix_files
from gpustack.matrix.load import parse_yaml

FOLDER = resources.folder("matrices")
sys.path.insert(0, str(FOLDER.parent / "ci"))

from fact_columns import Columns  # noqa: E402

COLUMNS = cache(Columns)
BY_THE_LOADER = {(BOUNDS, BOUNDS): {"name", "version"}, ("cuda-packages", "seen_names"): {"names"}}
"""What the short forms of the files read, before there are rows."""


def document(path: Path) -> dict[str, Any]:
    read: Any = parse_yaml(path.read_text(encoding="utf-8"))
    return dict(read)


def test_every_column_is_read_by_the_program_or_said_to_be_for_readers() -> None:
    columns = COLUMNS()
    wrong = []
    for subject, path in matrix_files(FOLDER).items():
        for name, table in document(path)["tables"].items():
            fields = set(table["fields"])
            read = columns.read(subject, name, fields) | BY_THE_LOADER.get((subject, name), set())
            readers = table.get("readers", [])
            declared = fields if readers == "all" else set(readers)
            wrong += [f"{subject}.{name}: nothing reads {one}" for one in sorted(fields - read - declared)]
            wrong += [f"{subject}.{name}: code reads {one}" for one in sorted(declared & read)]
    assert not wrong, "\n".join(wrong)


def test_the_proof_sees_a_column_that_nothing_reads() -> None:
    columns = COLUMNS()
    assert columns.read("cuda", "releases", {"cc_max", "label"}) == {"cc_max"}
    assert columns.read("gpus", "notes", {"text"}) == set()
    assert columns.read("cuda", "forward_compat", {"branch", "result", "src"}) >= {"branch", "result"}
