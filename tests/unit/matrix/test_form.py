"""The matrix files have one form: ``.venv/bin/python ci/facts_form.py`` writes it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from gpustack import resources
from gpustack.matrix.layout import matrix_files
from gpustack.matrix.load import parse_yaml

FOLDER = resources.folder("matrices")
sys.path.insert(0, str(FOLDER.parent / "ci"))

from facts_form import canonical  # noqa: E402


@pytest.mark.parametrize("path", matrix_files(FOLDER).values(), ids=lambda path: path.stem)
def test_a_file_is_in_the_form_that_the_program_writes(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert canonical(text).splitlines() == text.splitlines(), ".venv/bin/python ci/facts_form.py puts it in order"


def test_the_form_sorts_rows_and_says_the_same() -> None:
    text = (FOLDER / "bounds.yaml").read_text(encoding="utf-8")
    *head, one, two = text.splitlines(keepends=True)
    assert canonical("".join([*head, two, one])) == text
    for value in (
        "1.10",
        "a: b",
        " x",
        "x #y",
        "@x",
        "'",
        "",
        "==1",
        "-",
        "- x",
        "no",
        "~",
        "https://x.org/a?b=c",
        "ä",
        "x:",
    ):
        quoted = text.replace("the newest driver of branch 580 in the folders that have this branch", "PLACE")
        written = canonical(quoted.replace("means: PLACE", "means: '" + value.replace("'", "''") + "'"))
        rows: Any = parse_yaml(written)["tables"]["bounds"]["rows"]  # type: ignore[index,call-overload]
        assert [row["means"] for row in rows if row["name"] == "driver-580-served"] == [value]
        assert canonical(written) == written


def test_an_address_with_a_question_is_quoted_for_every_yaml_reader() -> None:
    """Some readers take a plain ``?`` inside of braces for the mark of a key."""
    for path in matrix_files(FOLDER).values():
        assert not re.search(r": https?://[^\s\"',]*\?", path.read_text(encoding="utf-8")), path
