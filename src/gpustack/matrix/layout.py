"""How compiled matrices are stored: the index, the head of each subject, and the names of their parts."""

from pathlib import Path

import msgspec
from msgspec import Struct, field

FORMAT = 8
"""Increased whenever the layout below or the conversion changes, so that old compiled files are ignored."""


class SubjectEntry(Struct, frozen=True, kw_only=True):
    """The index entry of one subject. ``stamp`` is (time of change in ns, size) of the YAML file.

    ``read`` is the last day on which one of its sources was read. ``is_generated`` marks a file of ``generated``: a
    machine may publish it (see ``updates``).
    """

    digest: str
    stamp: tuple[int, int]
    tables: dict[str, int]
    about: str = ""
    read: str = ""
    is_generated: bool = False


class Index(Struct, frozen=True, kw_only=True):
    """All subjects of a set of matrices. ``made`` is the time of publication (ISO 8601, UTC), "" if never published."""

    format: int
    subjects: dict[str, SubjectEntry]
    made: str = ""

    @property
    def date(self) -> str:
        """When the facts were true: the time of publication, else the last day on which a source was read."""
        return self.made or max((entry.read for entry in self.subjects.values()), default="")


class TableHead(Struct, frozen=True, kw_only=True):
    """A table without its rows, which have a file of their own."""

    about: str
    key: tuple[str, ...]
    fields: dict[str, str]


class SubjectHead(Struct, frozen=True, kw_only=True):
    """A subject without the rows of its tables."""

    name: str
    sources: msgspec.Raw
    tables: dict[str, TableHead] = field(default_factory=dict)


PARTED = ("rules", "releases", "availability", "packages", "framework_builds", "framework_files")
"""Tables that are also stored by component, so that a query reads only what it is about."""

GENERATED = "generated"
"""The folder below ``matrices`` with generated files, which nobody edits."""

BOUNDS = "bounds"
"""The subject, and its table, whose rows ``@NAME`` stands for in the ranges of all files."""

BINDING = "binding"
"""The part with the rules that bind each release of a component."""


def part_name(table: str, component: str) -> str:
    """The name of the file for one component's rows of a table."""
    return f"@{table}-{component}"


def matrix_files(folder: Path) -> dict[str, Path]:
    """The matrix files of ``folder`` by subject: those maintained by hand and those that are ``generated``."""
    found = {path.stem: path for place in (folder / GENERATED, folder) for path in place.glob("*.yaml")}
    return dict(sorted(found.items()))
