"""Sums that somebody quotes for a file, next to the rows of the facts that have this file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from update.record import FileSum, Row
from update.tables import Facts, key_of

_NAMES = {("repositories", "keyring_sha256"): ("repo", "arch", "file")}
"""Tables in which files of one name differ by their folder: the columns that make the end of the address."""


class Quoted(NamedTuple):
    """A row with a file, and the sum that is quoted for the file."""

    subject: str
    table: str
    key: tuple[str, ...]
    row: Row
    sum: FileSum

    @property
    def differs(self) -> str:
        """What is wrong with it; "" if the row has the same sum."""
        known = self.row[self.sum.column]
        where = f"{self.subject}.{self.table} {' '.join(filter(None, self.key))}"
        changed = f"{where}: {self.sum.column} {known} becomes {self.sum.digest}: a sum never changes"
        return changed if known != self.sum.digest else ""


def quoted(sums: Iterable[FileSum], facts: Facts) -> Iterator[Quoted]:
    """Each row that has a sum of the kind that is quoted for its file."""
    by_file: dict[str, list[FileSum]] = {}
    for one in sums:
        by_file.setdefault(one.file.rpartition("/")[2], []).append(one)
    for subject in facts.subjects if by_file else ():
        for table, about in facts.document(subject)["tables"].items():
            columns = _NAMES.get((subject, table), ("file",))
            for row in about["rows"]:
                for one in by_file.get(str(row.get("file")), ()):
                    end = "/".join(row[column] for column in columns)
                    if one.column in row and f"/{one.file}".endswith(f"/{end}"):
                        yield Quoted(subject, table, key_of(row, about["key"]), row, one)
