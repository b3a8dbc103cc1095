"""The facts as they stand in their files: texts and lists of texts, before short forms are written out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from facts_form import ROOT, written
from gpustack.matrix.fills import filled, fills
from gpustack.matrix.layout import matrix_files
from gpustack.matrix.load import parse_yaml
from update.record import Row

MATRICES = ROOT / "matrices"

SOURCES = {
    ("cuda", "redist_manifest"): "https://developer.download.nvidia.com/compute/cuda/redist/",
    ("cudnn", "redist"): "https://developer.download.nvidia.com/compute/cudnn/redist/",
    ("driver", "dc_list"): "https://docs.nvidia.com/datacenter/tesla/drivers/releases.json",
}
"""The sources of seen releases, by subject and key: a file gets them with the first such row."""


class Facts:
    """The files of a folder of matrices, read on demand. ``change`` alters rows in memory, ``write`` the files."""

    def __init__(self, folder: Path = MATRICES) -> None:
        self.folder = folder
        self._paths = matrix_files(folder)
        self._documents: dict[str, tuple[str, dict[str, Any]]] = {}
        self._changed: set[str] = set()
        self._keyed: dict[tuple[str, str], dict[tuple[str, ...], Row]] = {}
        self._filled: dict[tuple[str, str], list[Row]] = {}

    @cached_property
    def subjects(self) -> tuple[str, ...]:
        return tuple(self._paths)

    def document(self, subject: str) -> dict[str, Any]:
        """The parsed file of a subject."""
        if subject not in self._documents:
            text = self._paths[subject].read_text(encoding="utf-8")
            document: Any = parse_yaml(text)
            self._documents[subject] = (text[: text.index("schema:")], document)
        return self._documents[subject][1]

    def rows(self, subject: str, table: str) -> list[Row]:
        found: list[Row] = self.document(subject)["tables"][table]["rows"]
        return found

    def filled(self, subject: str, table: str) -> list[Row]:
        """The rows of a table with the columns that they take from other tables of their file."""
        if (subject, table) not in self._filled:
            tables = self.document(subject)["tables"]
            found = fills(tables[table], tables)
            self._filled[subject, table] = [
                filled(row, found, tables[table]["fields"]) for row in tables[table]["rows"]
            ]
        return self._filled[subject, table]

    def key(self, subject: str, table: str) -> tuple[str, ...]:
        return tuple(self.document(subject)["tables"][table]["key"])

    def by_key(self, subject: str, table: str) -> dict[tuple[str, ...], Row]:
        """The rows by the texts of their key columns."""
        if (subject, table) not in self._keyed:
            names = self.key(subject, table)
            self._keyed[subject, table] = {key_of(row, names): row for row in self.rows(subject, table)}
        return self._keyed[subject, table]

    def put(self, subject: str, table: str, rows: Sequence[Row]) -> None:
        """Add rows, or replace those of the same key. A source that the file lacks is added to it."""
        sources = self.document(subject)["sources"]
        for key in {key for row in rows for key in row["src"]} - set(sources):
            sources[key] = {"address": SOURCES[subject, key], "known": "stated"}
        names = self.key(subject, table)
        merged = {**self.by_key(subject, table), **{key_of(row, names): row for row in rows}}
        about = self.document(subject)["tables"][table]
        about["rows"] = list(merged.values())
        if any("status" in row for row in about["rows"]):
            about["fields"].setdefault("status", "word")
        self._changed.add(subject)
        self._keyed.pop((subject, table), None)
        self._filled.clear()

    def text(self, subject: str) -> str:
        """The file of a subject in the one form."""
        document = self.document(subject)
        return written(self._documents[subject][0], document)

    def write(self) -> tuple[Path, ...]:
        """Write the files of the changed subjects, and name them."""
        paths = tuple(self._paths[subject] for subject in sorted(self._changed))
        for subject in self._changed:
            self._paths[subject].write_text(self.text(subject), encoding="utf-8")
        self._changed.clear()
        return paths


def declined() -> frozenset[str]:
    """The places of rows that a person looked at and left out of the facts."""
    lines = Path(__file__).with_name("declined.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def key_of(row: Row, names: Iterable[str]) -> tuple[str, ...]:
    """The key of a row as texts; a list is its words."""
    return tuple(" ".join(value) if isinstance(value := row.get(name, ""), list) else str(value) for name in names)
