"""Which columns of the facts the program reads: told by the source, without running it.

A table is read where a module asks for its rows as some class (or as dicts); a column of it is read where that class
has a field of its name and any module takes that attribute, or where the module that asks for dicts names it. What
nothing reads is for people: the table's head says so (``readers``), and a test holds that it says it of no other.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).resolve().parents[1] / "src" / "gpustack"
APART = {"matrix"}
"""Packages that print or check whatever stands there: what only they read decides nothing."""
TYPED = {
    "releases": "Release",
    "rules": "Rule",
    "availability": "Availability",
    "packages": "PackageSet",
    "framework_builds": "Build",
    "framework_files": "WheelFile",
    "archives": "Archive",
}
"""What the look-ups of Matrix that name no table read."""
STORED = ("systems", "repositories", "keys", "products", "conflicts")
ANY = ""


class Reading(NamedTuple):
    """Rows that a module asks for: of a subject (ANY: of all), of some tables, as a class or as ``dict``."""

    module: Path
    subject: str
    tables: tuple[str, ...]
    kind: str


class Columns:
    """The columns that are read, by table."""

    def __init__(self) -> None:
        paths = sorted(SOURCES.rglob("*.py"))
        self.nodes = {path: list(ast.walk(ast.parse(path.read_text(encoding="utf-8")))) for path in paths}
        self.constants = {path: dict(_constants(nodes)) for path, nodes in self.nodes.items()}
        self.classes: dict[str, list[tuple[Path, set[str], list[str]]]] = defaultdict(list)
        self.attributes: set[str] = set()
        for path, nodes in self.nodes.items():
            self._collect(path, nodes)
        self.readings = [reading for path, nodes in self.nodes.items() for reading in self._readings(path, nodes)]

    def _collect(self, path: Path, nodes: list[ast.AST]) -> None:
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                fields = {one.target.id for one in node.body if _is_field(one)}  # type: ignore[attr-defined]
                bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
                self.classes[node.name].append((path, fields, bases))
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and path.parent.name not in APART:
                self.attributes.add(node.attr)

    def _readings(self, path: Path, nodes: list[ast.AST]) -> Iterator[Reading]:
        for node in nodes:
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr not in {"rows", "everywhere", *TYPED}:
                continue
            name, words = node.func.attr, [self._word(path, one) for one in node.args]
            if name == "rows" and len(node.args) == 3:
                yield Reading(path, words[0], (words[1],) if words[1] else self._texts(path), _kind(node.args[2]))
            elif name == "everywhere" and len(node.args) == 2:
                yield Reading(path, ANY, (words[0],) if words[0] else self._texts(path), _kind(node.args[1]))
            elif name in TYPED:
                yield Reading(path, ANY, (name,), TYPED[name])

    def _word(self, path: Path, node: ast.expr) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        name = node.id if isinstance(node, ast.Name) else ""
        found = [values[name] for place, values in self.constants.items() if name in values and place == path]
        other = [values[name] for values in self.constants.values() if name in values]
        return (found or (other if len(set(other)) == 1 else [ANY]))[0]

    def _texts(self, path: Path) -> tuple[str, ...]:
        return tuple(
            {node.value for node in self.nodes[path] if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        )

    def fields(self, kind: str, path: Path) -> set[str]:
        """The fields of a class by its name, its own module's first, with those that it inherits."""
        found = self.classes.get(kind, [])
        own = [one for one in found if one[0] == path] or found
        return set().union(
            *(fields.union(*(self.fields(base, place) for base in bases)) for place, fields, bases in own)
        )

    def read(self, subject: str, table: str, columns: set[str]) -> set[str]:
        """The columns of this table that some module reads."""
        found: set[str] = set()
        for one in self.readings:
            if one.subject not in {ANY, subject} or table not in one.tables:
                continue
            if one.kind == "dict":
                if one.module.parent.name not in APART:
                    found |= columns & set(self._texts(one.module))
            else:
                found |= columns & self.fields(one.kind, one.module) & self.attributes
        return found


def _constants(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from ((target.id, node.value.value) for target in node.targets if isinstance(target, ast.Name))


def _is_field(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)


def _kind(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""
