"""Every error has an id: each that is raised is explained in docs/errors.md, and each that is explained is raised."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

from gpustack import resources
from gpustack.error_ids import ErrorId

ROOT = resources.folder("matrices").parent
MODULES = sorted((ROOT / "src/gpustack").rglob("*.py"))
BASES = {"GpustackError", "UsageError", "DocumentError", "UnsupportedError", "NoSolutionError", "OldFactsError"}
"""Classes that many kinds of errors share: what raises one of them has to name the id."""

PRINTED = re.compile(r"error\[([a-z-]+)\]")
ROW = re.compile(r"^\| `([a-z-]+)` \| ([0-9, ]+) \| [^|]+\. \| [^|]+\. \|$")


@cache
def classes() -> dict[str, ast.ClassDef]:
    """The classes of errors by name, their bases first."""
    every = {node.name: node for path in MODULES for node in nodes(path) if isinstance(node, ast.ClassDef)}
    found: dict[str, ast.ClassDef] = {"GpustackError": every["GpustackError"]}
    while more := {
        name: node
        for name, node in every.items()
        if name not in found and any(isinstance(base, ast.Name) and base.id in found for base in node.bases)
    }:
        found |= more
    return found


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def raised() -> Iterator[tuple[str, str, bool]]:
    """Every place that makes an error: where, its class, and whether it names an id."""
    for path in MODULES:
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in classes():
                is_named = any(keyword.arg == "code" for keyword in node.keywords)
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.func.id, is_named


def of_class(name: str) -> str | None:
    """The id that a class of errors has by itself."""
    for node in classes()[name].body:
        if isinstance(node, ast.AnnAssign | ast.Assign) and isinstance(node.value, ast.Constant):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Name) and target.id == "code":
                return str(node.value.value)
    return None


def named(path: Path) -> set[str]:
    """The ids that a module names: in ``code=``, as a default of that parameter, and in what it prints itself."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.keyword) and node.arg == "code":
            found |= texts(node.value)
        elif isinstance(node, ast.FunctionDef):
            for parameter, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
                found |= texts(default) if parameter.arg == "code" and default is not None else set()
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= set(PRINTED.findall(node.value))
    return found


def texts(value: ast.expr) -> set[str]:
    return {node.value for node in ast.walk(value) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def documented() -> dict[str, str]:
    lines = (ROOT / "docs/errors.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| `")]
    matches = [ROW.match(line) for line in rows]
    assert [line for line, match in zip(rows, matches, strict=True) if match is None] == []
    return {match[1]: match[2] for match in matches if match is not None}


def test_what_raises_an_error_of_a_shared_class_names_its_id() -> None:
    assert [place for place, name, is_named in raised() if name in BASES and not is_named] == []


def test_every_id_is_explained_and_the_page_is_in_order() -> None:
    assert list(documented()) == sorted(get_args(ErrorId))


def test_every_id_that_is_explained_is_used() -> None:
    used = {name for path in MODULES for name in named(path)}
    assert set(documented()) - used - {of_class(name) for name in classes()} == set()


def test_a_class_with_an_id_of_its_own_has_one_that_is_explained() -> None:
    own = {name: of_class(name) for name in classes()}
    assert {name: code for name, code in own.items() if code is not None and code not in documented()} == {}
    assert {name for name in classes() if own[name] is None and name not in BASES} <= {"AttributesError"}


def test_the_page_tells_the_exit_codes() -> None:
    """As far as the class tells them: a signal's and a pause's own are in the texts of their classes."""
    exits = {
        "GpustackError": 1,
        "UsageError": 2,
        "DocumentError": 2,
        "UnsupportedError": 4,
        "NoSolutionError": 3,
        "OldFactsError": 8,
    }
    wanted: dict[str, set[int]] = {}
    for path in MODULES:
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in exits:
                for code in (keyword.value for keyword in node.keywords if keyword.arg == "code"):
                    if isinstance(code, ast.Constant):
                        wanted.setdefault(str(code.value), set()).add(exits[node.func.id])
    told = {name: {int(text) for text in codes.split(", ")} for name, codes in documented().items()}
    assert {name: codes for name, codes in wanted.items() if not codes <= told[name]} == {}
