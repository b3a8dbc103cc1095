"""The shape of the program: layers, sizes, docstrings, and who may print."""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from gpustack import resources

ROOT = resources.folder("matrices").parent
MODULES = sorted((ROOT / "src/gpustack").rglob("*.py"))
LONGEST_MODULE = 400
LONGEST_FUNCTION = 60
MEDIAN_MODULE = 120

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    return path.relative_to(ROOT / "src").as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(parsed(path)))


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


def test_modules_are_short() -> None:
    assert {name_of(path): count for path in MODULES if (count := length(path)) > LONGEST_MODULE} == {}


def length(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_every_module_says_what_it_is_in_a_sentence() -> None:
    heads = {name_of(path): (ast.get_docstring(parsed(path)) or "").partition("\n")[0] for path in MODULES}
    assert {name: head for name, head in heads.items() if not head.endswith((".", ":"))} == {}


def functions(path: Path) -> Iterator[Function]:
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_functions_are_short() -> None:
    lengths = {f"{name_of(path)}: {one.name}": own_length(one) for path in MODULES for one in functions(path)}
    assert {name: count for name, count in lengths.items() if count > LONGEST_FUNCTION} == {}


def own_length(function: Function) -> int:
    """Its lines; registering a command is one function around another, and each is counted for itself."""
    inner = [node for node in function.body if isinstance(node, ast.FunctionDef)]
    return lines_of(function) - sum(map(lines_of, inner))


def lines_of(function: Function) -> int:
    return (function.end_lineno or 0) - function.lineno + 1


def test_the_median_module_is_small() -> None:
    lengths = [length(path) for path in MODULES if path.name != "__init__.py"]
    assert statistics.median(lengths) <= MEDIAN_MODULE


def test_only_the_command_line_prints_or_exits() -> None:
    """A copy of the process that asks NVML may end itself."""
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in MODULES
        if "gpustack/cli/" not in path.as_posix() and path.name != "__main__.py"
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"print", "sys.exit", "exit", "quit", "os._exit", "input"}
        and (path.name, ast.unparse(node.func)) != ("nvml.py", "os._exit")
    ]
    assert found == []


def test_nothing_is_left_for_later() -> None:
    marks = ("TO" + "DO", "FIX" + "ME", "XX" + "X:")
    found = [name_of(path) for path in MODULES if any(mark in path.read_text(encoding="utf-8") for mark in marks)]
    assert found == []


def test_no_boolean_is_passed_by_place_and_no_import_is_relative() -> None:
    """What the linter enforces too, kept here for those who run the tests alone."""
    for path in MODULES:
        for node in nodes(path):
            assert not (isinstance(node, ast.ImportFrom) and node.level), name_of(path)


def test_no_modules_import_each_other_not_even_in_a_function() -> None:
    imports = {module_of(path): imported(path) for path in MODULES}
    while leaves := [name for name, others in imports.items() if not others & imports.keys()]:
        for name in leaves:
            del imports[name]
    assert {name: sorted(others & imports.keys()) for name, others in imports.items()} == {}


def module_of(path: Path) -> str:
    return name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


NAMES = {module_of(path) for path in MODULES}


def imported(path: Path) -> set[str]:
    """The modules of the program that a module imports, whenever it does; for a package its own module is meant."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            below = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= below & NAMES or {node.module}
    return found & NAMES
