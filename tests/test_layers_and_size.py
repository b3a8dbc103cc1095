"""The shape of the program: layers, sizes, docstrings, and who may print."""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpustack import resources

ROOT = resources.folder("matrices").parent
MODULES = sorted((ROOT / "src/gpustack").rglob("*.py"))
LONGEST_MODULE = 400
LONGEST_FUNCTION = 60
MEDIAN_MODULE = 120

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    return path.relative_to(ROOT / "src").as_posix()


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_import_contracts_hold() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_is_short_and_says_what_it_is(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LONGEST_MODULE
    docstring = ast.get_docstring(parsed(path))
    assert docstring
    assert docstring.splitlines()[0].endswith((".", ":")), "the first line is a sentence"


def functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_function_is_short(path: Path) -> None:
    for function in functions(path):
        inner = [node for node in function.body if isinstance(node, ast.FunctionDef)]
        length = (function.end_lineno or 0) - function.lineno + 1
        # Registering a command is one function around another: each is counted for itself.
        length -= sum((node.end_lineno or 0) - node.lineno + 1 for node in inner)
        assert length <= LONGEST_FUNCTION, f"{function.name} has {length} lines"


def test_the_median_module_is_small() -> None:
    lengths = [len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES if path.name != "__init__.py"]
    assert statistics.median(lengths) <= MEDIAN_MODULE


def test_only_the_command_line_prints_or_exits() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in MODULES
        if "gpustack/cli/" not in path.as_posix() and path.name != "__main__.py"
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"print", "sys.exit", "exit", "quit", "os._exit", "input"}
    ]
    assert found == []


def test_nothing_is_left_for_later() -> None:
    marks = ("TO" + "DO", "FIX" + "ME", "XX" + "X:")
    found = [name_of(path) for path in MODULES if any(mark in path.read_text(encoding="utf-8") for mark in marks)]
    assert found == []


def test_no_boolean_is_passed_by_place_and_no_import_is_relative() -> None:
    """What the linter enforces too, kept here for those who run the tests alone."""
    for path in MODULES:
        for node in ast.walk(parsed(path)):
            assert not (isinstance(node, ast.ImportFrom) and node.level), name_of(path)
