"""Change single places of the code, and look whether a test of that code fails: what nobody asserts is found so.

    .venv/bin/python ci/mutate_code.py solve|detect [--mutants 150] [--seed 1] [--only FILE-NAME]

Draws places in functions (comparisons, conditions, numbers, texts, returns, terms of conditions), changes one at a
time, runs the tests of the area that call that function until one fails, and prints the changes that no test noticed.
Exit code 1 where fewer than 95 of 100 are noticed. First all tests of the area run unchanged, which have to pass.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import contextlib
import copy
import functools
import gc
import importlib
import os
import random
import signal
import sys
import time
import types
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/gpustack"
AREAS = {
    "solve": (("solve/*.py",), ("tests/unit/solve", "tests/test_combinations.py", "tests/test_scenarios.py")),
    "detect": (("detect/*.py", "detect/*/*.py"), ("tests/unit/detect",)),
}
"""By area: the code that is changed, and the tests that belong to it."""

WANTED = 0.95
MOST_TESTS = 250
"""Tests that are run against one change before it counts as unnoticed, the quickest first."""
LIMIT_S = 300
"""A change may make a loop endless: that is noticed too."""

Place = tuple[Path, int, str]
_OTHER = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def ways(node: ast.AST) -> Iterator[tuple[str, Callable[[Any], ast.AST | None]]]:  # noqa: C901 (one case for each kind of node)
    """The changes of one node: what to call each, and what makes it of a copy of the node."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _OTHER:
            yield "operator", lambda one: _set(one, ops=[_OTHER[type(one.ops[0])]()])
        case ast.BinOp(op=operator) if type(operator) in _OTHER:
            yield "operator", lambda one: _set(one, op=_OTHER[type(one.op)]())
        case ast.BoolOp():
            yield "and/or", lambda one: _set(one, op=_OTHER[type(one.op)]())
            for number in range(len(node.values)):
                yield f"term {number} dropped", lambda one, number=number: _without(one, number)
        case ast.UnaryOp(op=ast.Not()):
            yield "not dropped", lambda one: one.operand
        case ast.If() | ast.IfExp():
            yield "condition turned", lambda one: _set(one, test=ast.UnaryOp(ast.Not(), one.test))
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            yield "returns None", lambda one: _set(one, value=ast.Constant(None))
        case ast.Constant(value=bool()):
            yield "constant", lambda one: ast.Constant(not one.value)
        case ast.Constant(value=int()):
            yield "constant", lambda one: ast.Constant(one.value + 1)
        case ast.Constant(value=str(text)) if text.strip():
            yield (
                "text",
                lambda one: ast.Constant(f"{one.value[: len(one.value) // 2]}~{one.value[len(one.value) // 2 :]}"),
            )


def _set(node: Any, **fields: Any) -> Any:  # noqa: ANN401 (nodes of all kinds)
    for name, value in fields.items():
        setattr(node, name, value)
    return node


def _without(node: ast.BoolOp, number: int) -> ast.expr:
    left = [value for place, value in enumerate(node.values) if place != number]
    return left[0] if len(left) == 1 else ast.BoolOp(node.op, left)


class Mutation:
    """One change: its file, the top-level function or method it is in, and the code of that function."""

    def __init__(self, file: Path, number: int, way: str) -> None:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        node = _nodes(tree)[number]
        self.file, self.line, self.way = file, node.lineno, way
        self.before = ast.unparse(node).splitlines()[0][:90]
        change = next(make for name, make in ways(node) if name == way)
        after = change(copy.deepcopy(node))
        _Replaced(node, after).visit(tree)
        self.code = compile(ast.fix_missing_locations(tree), str(file), "exec")
        self.after = "" if after is None else ast.unparse(after).splitlines()[0][:90]

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}: {self.way}: {self.before}  ->  {self.after}"

    def functions(self) -> Iterator[types.CodeType]:
        """The changed code of each function whose lines hold the place: the outermost first."""
        yield from _holding(self.code, self.line)


class _Replaced(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else super().visit(node)


def _holding(code: types.CodeType, line: int) -> Iterator[types.CodeType]:
    for one in code.co_consts:
        if isinstance(one, types.CodeType) and any(line == at for at in _lines(one)):
            if "<" not in one.co_name and one.co_flags & 2:  # a function, not a class
                yield one
            else:
                yield from _holding(one, line)


def _functions(code: types.CodeType) -> Iterator[types.CodeType]:
    """The functions and methods in a module's code, without those inside them."""
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from [one] if "<" not in one.co_name and one.co_flags & 2 else _functions(one)


def _lines(code: types.CodeType) -> Iterator[int]:
    yield from (at for _, _, at in code.co_lines() if at is not None)
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _lines(one)


def _nodes(tree: ast.Module) -> list[Any]:  # noqa: C901 (one walk)
    """The nodes inside functions that may be changed, in a fixed order; docstrings and annotations apart."""
    found: list[Any] = []

    def walk(node: ast.AST, *, inside: bool) -> None:
        if isinstance(node, ast.FunctionDef):
            for number, statement in enumerate(node.body):
                if number or not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                    walk(statement, inside=True)
            return
        if inside and next(ways(node), None) is not None:
            found.append(node)
        if isinstance(node, ast.FormattedValue):
            walk(node.value, inside=inside)
            return
        for name, value in ast.iter_fields(node):
            if name in {"annotation", "decorator_list"}:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    walk(child, inside=inside)

    walk(tree, inside=False)
    return found


class Changes:
    """A plugin of pytest: when all tests have passed, it makes each change and runs the tests that may notice it."""

    def __init__(self, files: set[str], chosen: list[Place]) -> None:
        self._files, self._chosen = files, chosen
        self._caches: list[Any] = []
        self._called: set[tuple[str, int]] = set()
        self._by_function: dict[tuple[str, int], dict[str, pytest.Item]] = defaultdict(dict)
        self._seconds: dict[str, float] = {}
        self.survivors = 0

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        for one in self._caches:
            one.cache_clear()
        self._called.clear()
        started = time.monotonic()
        yield
        self._seconds[item.nodeid] = time.monotonic() - started
        for function in self._called:
            self._by_function[function][item.nodeid] = item

    def pytest_collection_finish(self) -> None:
        """Let each function of the area say that it is called."""
        builtins._called = self._called.add  # type: ignore[attr-defined]  # noqa: SLF001 (seen from everywhere)
        for file in self._files:
            importlib.import_module(".".join(Path(file).relative_to(SOURCE.parent).with_suffix("").parts))
            tree = ast.parse(Path(file).read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef):
                    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                    call = ast.parse(f"_called({(file, first)!r})").body[0]
                    node.body.insert(0, ast.copy_location(call, node.body[0]))
            _apply(Path(file), list(_functions(compile(ast.fix_missing_locations(tree), file, "exec"))))
        self._caches = _caches()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Iterator[None]:
        yield
        if session.testsfailed:
            return
        for number, place in enumerate(self._chosen, 1):
            mutation = Mutation(*place)
            answer = self._notices(mutation)
            if not answer:
                self.survivors += 1
                _say(f"{'survives' if answer is not None else 'no test'}: {mutation}")
            if number % 25 == 0:
                _say(f"{number} of {len(self._chosen)}: {number - self.survivors} noticed")

    def _notices(self, mutation: Mutation) -> bool | None:
        """Whether a test fails with the change, made in a copy of this process; None where no test comes by."""
        codes = list(mutation.functions())
        items: dict[str, pytest.Item] = {}
        for code in codes:
            items |= self._by_function.get((str(mutation.file), code.co_firstlineno), {})
        if not items:
            return None
        ordered = sorted(items.values(), key=lambda item: self._seconds[item.nodeid])[:MOST_TESTS]
        child = os.fork()
        if not child:
            signal.alarm(LIMIT_S)
            _silence()
            _apply(mutation.file, codes)
            os._exit(int(any(_fails(item, after) for item, after in zip(ordered, [*ordered[1:], None], strict=True))))
        return os.waitpid(child, 0)[1] != 0


def _fails(item: pytest.Item, after: pytest.Item | None) -> bool:
    item._initrequest()  # type: ignore[attr-defined]  # noqa: SLF001 (the item has run before)
    return any(report.failed for report in runtestprotocol(item, log=False, nextitem=after))


_OUT = os.dup(1)


def _say(text: str) -> None:
    os.write(_OUT, f"{text}\n".encode())


def _caches() -> list[Any]:
    """What functions of the area's packages keep: an answer of the unchanged code would hide the change."""
    found = (one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper))  # noqa: SLF001
    return [one for one in found if str(one.__module__).startswith(("gpustack.solve", "gpustack.detect"))]


def _apply(file: Path, codes: list[types.CodeType]) -> None:
    for one in _caches():
        one.cache_clear()
    wanted = {(code.co_name, code.co_firstlineno): code for code in codes}
    for one in gc.get_objects():
        if isinstance(one, types.FunctionType) and one.__code__.co_filename == str(file):
            code = wanted.get((one.__code__.co_name, one.__code__.co_firstlineno))
            if code is not None:
                one.__code__ = code


def _silence() -> None:
    for number in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("area", choices=AREAS)
    parser.add_argument("--mutants", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="files whose name holds this")
    options = parser.parse_args()
    patterns, tests = AREAS[options.area]
    files = sorted(file for pattern in patterns for file in SOURCE.glob(pattern) if options.only in str(file))
    places = [
        (file, number, way)
        for file in files
        for number, node in enumerate(_nodes(ast.parse(file.read_text(encoding="utf-8"))))
        for way, _ in ways(node)
    ]
    chosen = random.Random(options.seed).sample(places, min(options.mutants, len(places)))  # noqa: S311 (no secret)
    changes = Changes({str(file) for file in files}, chosen)
    os.chdir(ROOT)
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        before = pytest.main(["-q", "-p", "no:cacheprovider", *tests], plugins=[changes])
    if before != 0:
        _say("the tests fail as the code is")
        return 2
    share = 1 - changes.survivors / len(chosen)
    _say(f"{len(chosen)} changes of {len(places)} possible, {len(chosen) - changes.survivors} noticed ({share:.0%})")
    return int(share < WANTED)


if __name__ == "__main__":
    sys.exit(main())
