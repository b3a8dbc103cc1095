"""What a row lacks is taken from the rows that fill it, and what it says stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpustack.errors import MatrixError
from gpustack.matrix.load import read_subject

FILE = """schema: gpustack/matrix/v1
subject: gpus
about: what
sources:
  ids: {address: https://example.com/ids, known: reported}
  guide: {address: https://example.com/guide, known: stated}
tables:
  products:
    about: what
    key: [device]
    fields: {device: word, chip: word, capability: version, memory: int}
    filled: {boards: [device], chips: [chip, src]}
    rows:
      - {device: "1", chip: GH100, src: [ids]}
      - {device: "2", chip: GH100, capability: 9.1, src: [ids]}
      - {device: "3", chip: GX100, src: [ids]}
  boards:
    about: what
    key: [device]
    fields: {device: word, memory: int}
    rows:
      - {device: "2", memory: 80, src: [guide]}
  chips:
    about: what
    key: [chip]
    fields: {chip: word, capability: version}
    rows:
      - {chip: GH100, capability: 9.0, src: [guide]}
"""


def rows(folder: Path, text: str) -> list[dict[str, object]]:
    path = folder / "gpus.yaml"
    path.write_text(text, encoding="utf-8")
    return read_subject(path).tables["products"].rows


def test_a_row_takes_what_it_lacks_and_keeps_what_it_says(tmp_path: Path) -> None:
    first, second, third = rows(tmp_path, FILE)
    assert (first["capability"], first["src"]) == ("9.0", ["ids", "guide"])
    assert (second["capability"], second["memory"], second["src"]) == ("9.1", 80, ["ids"])
    assert "capability" not in third


def test_how_a_row_is_known_is_a_matter_of_its_own_sources(tmp_path: Path) -> None:
    assert [row["known"] for row in rows(tmp_path, FILE)] == ["reported"] * 3


@pytest.mark.parametrize(
    ("filled", "why"),
    [
        ("{cards: [device]}", "'cards' has to be a table of this file"),
        ("{boards: [chip]}", "column 'chip' is not among the fields of both tables"),
        ("[boards]", "filled has to be a mapping"),
    ],
)
def test_what_cannot_fill_is_named(tmp_path: Path, filled: str, why: str) -> None:
    with pytest.raises(MatrixError, match=why):
        rows(tmp_path, FILE.replace("{boards: [device], chips: [chip, src]}", filled))
