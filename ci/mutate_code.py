"""Change single places of the code, and look whether a test of that code fails: what nobody asserts is found so.

    .venv/bin/python ci/mutate_code.py solve|detect|findings [--mutants 150] [--seed 1] [--only FILE-NAME]

Draws places in functions (comparisons, conditions, numbers, texts, returns, terms of conditions), changes one at a
time in a copy of the process, runs the tests that come by that place until one fails, and prints the changes that no
test noticed. Exit code 1 where fewer than 95 of 100 are noticed. First all tests of the area run unchanged, which have
to pass.

Every host that a test describes comes by every detector. So for a change in a detector all hosts of the tests are
first judged again by the detectors that use the changed code: only tests of a host of which they say something else
can notice it, and only those run.
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
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from gpustack.detect.problems import DETECTORS
from gpustack.detect.problems.registry import Detector

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/gpustack"
GOLDEN_PLANS = tuple(
    f"tests/unit/plan/test_golden.py::test_plans_of_a_system_are_the_golden_ones[{system}]"
    for system in ("ubuntu24.04", "debian12", "rhel9", "sles15.7", "azurelinux3.0", "windows11")
)
"""Plans of one system of each family, with what is refused there."""

_DETECTORS = "detect/problems/*.py"
AREAS = {
    "solve": (("solve/*.py",), ("tests/unit/solve", "tests/test_combinations.py", "tests/test_scenarios.py")),
    "detect": (("detect/*.py", "detect/*/*.py"), ("tests/unit/detect",)),
    "findings": (
        (_DETECTORS, "solve/sentences.py", "solve/words.py", "solve/reasons.py"),
        (*GOLDEN_PLANS, "tests/unit/detect", "tests/unit/solve", "tests/failures", "tests/test_scenarios.py"),
    ),
}
"""By area: the code that is changed, and the tests that belong to it."""

WANTED = 0.95
MOST_TESTS = 250
"""Tests that are run against one change before it counts as unnoticed: those that see most of the function first."""
LIMIT_S = 300
"""A change may make a loop endless: a test that takes so long is one that notices it, too."""

Place = tuple[Path, int, str]
Block = tuple[str, int, int]
"""A list of statements: its file, and where the first of them begins."""
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
        node, self.block, self._owner = _nodes(tree)[number]
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
        """The changed code of the outermost function around the place."""
        yield from (one for one in _functions(self.code) if (one.co_name, one.co_firstlineno) == self._owner)


class _Replaced(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else super().visit(node)


def _functions(code: types.CodeType) -> Iterator[types.CodeType]:
    """The functions and methods in a module's code, without those inside them."""
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from [one] if "<" not in one.co_name and one.co_flags & 2 else _functions(one)


def _nodes(tree: ast.Module) -> list[tuple[Any, tuple[int, int], tuple[str, int]]]:
    """The nodes inside functions that may be changed, in a fixed order.

    Each with the begin of its block, and with the name and the first line of the outermost function around it.
    """
    found: list[tuple[Any, tuple[int, int], tuple[str, int]]] = []

    def walk(node: ast.AST, block: tuple[int, int] | None, owner: tuple[str, int]) -> None:
        if block is not None and next(ways(node), None) is not None:
            found.append((node, block, owner))
        if isinstance(node, ast.FunctionDef) and block is None:
            owner = node.name, min([node.lineno, *(one.lineno for one in node.decorator_list)])
        is_inside = block is not None or isinstance(node, ast.FunctionDef)
        for name, value in _children(node):
            is_block = is_inside and isinstance(value, list) and value and isinstance(value[0], ast.stmt)
            inner = _begin(value) if is_block else None if name == "args" and block is None else block
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not _is_docstring(child):
                    walk(child, inner, owner)

    walk(tree, None, ("", 0))
    return found


def _children(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """The fields of a node that may be changed: no annotation or decorator, and no format of a value."""
    without = {"format_spec"} if isinstance(node, ast.FormattedValue) else {"annotation", "returns", "decorator_list"}
    yield from ((name, value) for name, value in ast.iter_fields(node) if name not in without)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _begin(block: list[ast.stmt]) -> tuple[int, int]:
    return block[0].lineno, block[0].col_offset


def _blocks(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    """The lists of statements inside functions."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                for _, value in ast.iter_fields(node):
                    if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                        yield value


class Changes:
    """A plugin of pytest: when all tests have passed, it makes each change and runs the tests that may notice it."""

    def __init__(self, files: set[str], chosen: list[Place]) -> None:
        self._files, self._chosen = files, chosen
        self._reached: dict[str, set[Block]] = {}
        self._items: dict[str, pytest.Item] = {}
        self._seconds: dict[str, float] = {}
        self._hosts = Hosts()
        self.survivors = 0

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        _CODE.forget()
        self._items[item.nodeid] = item
        self._hosts.begin(item.nodeid, self._reached.setdefault(item.nodeid, set()))
        started = time.monotonic()
        yield
        self._seconds[item.nodeid] = time.monotonic() - started

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            _say(f"fails as the code is: {report.nodeid}")

    def pytest_collection_finish(self) -> None:
        """Let each block of the area's functions say that it is reached."""
        gc.unfreeze()  # tests/conftest.py hides from the collector what was imported before it
        self._hosts.begin("", set())
        for file in self._files:
            importlib.import_module(".".join(Path(file).relative_to(SOURCE.parent).with_suffix("").parts))
        _CODE.find(self._files)
        for file in self._files:
            tree = ast.parse(Path(file).read_text(encoding="utf-8"))
            for block in {id(one): one for one in _blocks(tree)}.values():
                call = ast.parse(f"_reached({(file, *_begin(block))!r})").body[0]
                block.insert(0, ast.copy_location(call, block[0]))
            _CODE.apply(file, list(_functions(compile(ast.fix_missing_locations(tree), file, "exec"))))
        self._hosts.watch()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Iterator[None]:
        yield
        if session.testsfailed:
            return
        gc.freeze()  # what is looked at is copied
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
        block = (str(mutation.file), *mutation.block)
        names = [name for name, reached in self._reached.items() if block in reached]
        detectors = self._hosts.reached.get(block, set())
        if not names and not detectors:
            return None
        child = os.fork()
        if not child:
            _silence()
            _CODE.apply(str(mutation.file), list(mutation.functions()))
            first = sorted(names, key=lambda name: (-self._seen(name, mutation), self._seconds[name]))[:MOST_TESTS]
            os._exit(int(self._fail(self._hosts.changed(detectors)) or self._fail(first)))
        return os.waitpid(child, 0)[1] != 0

    def _seen(self, name: str, mutation: Mutation) -> int:
        """How many blocks of the changed file a test reaches."""
        return sum(file == str(mutation.file) for file, _, _ in self._reached[name])

    def _fail(self, names: Iterable[str]) -> bool:
        """Whether one of these tests fails."""
        for name in dict.fromkeys(names):
            signal.alarm(LIMIT_S)
            item = self._items[name]
            item._initrequest()  # type: ignore[attr-defined]  # noqa: SLF001 (the item has run before)
            if any(report.failed for report in runtestprotocol(item, log=False, nextitem=item)):
                return True
        return False


class Hosts:
    """The hosts that tests describe, with what each detector said of them, and the blocks that a detector reaches."""

    def __init__(self) -> None:
        self.reached: dict[Block, set[str]] = defaultdict(set)
        self._detectors = dict(DETECTORS)
        self._said: list[tuple[str, Any, dict[str, Any]]] = []
        self._test = ""

    def begin(self, test: str, reached: set[Block]) -> None:
        """From now on a test runs, which reaches blocks outside of detectors too."""
        self._test = test
        builtins._reached = reached.add  # type: ignore[attr-defined]  # noqa: SLF001 (seen from everywhere)

    def watch(self) -> None:
        """Let each detector keep what it says."""
        for identity, detector in self._detectors.items():
            DETECTORS[identity] = self._watched(identity, detector)

    def _watched(self, identity: str, detector: Detector) -> Detector:
        mine = set[Block]()

        def say(scene: Any) -> Iterator[Any]:  # noqa: ANN401 (a scene)
            if not self._said or self._said[-1][1] is not scene:
                self._said.append((self._test, scene, {}))
            outside = builtins._reached  # type: ignore[attr-defined]  # noqa: SLF001
            builtins._reached = mine.add  # type: ignore[attr-defined]  # noqa: SLF001
            said = tuple(detector(scene))
            builtins._reached = outside  # type: ignore[attr-defined]  # noqa: SLF001
            self._said[-1][2][identity] = said
            for block in mine:
                if str(SOURCE / "detect/problems") in block[0]:
                    self.reached[block].add(identity)
                else:
                    outside(block)
            return iter(said)

        return say

    def changed(self, detectors: set[str]) -> Iterator[str]:
        """The tests of whose hosts one of the detectors says something else than before."""
        # Those of whom one of them says something come first: they mostly are the ones.
        for test, scene, said in sorted(self._said, key=lambda one: not any(map(one[2].get, detectors))):
            signal.alarm(LIMIT_S)
            if any(self._says(one, scene) != said[one] for one in detectors if one in said):
                yield test

    def _says(self, identity: str, scene: Any) -> Any:  # noqa: ANN401 (a scene; findings, or None for a failure)
        scene.__dict__.clear()  # what the scene keeps was made by the unchanged code
        try:
            return tuple(self._detectors[identity](scene))
        except Exception:  # noqa: BLE001 (whatever a changed program does is another answer)
            return None


_OUT = os.dup(1)


def _say(text: str) -> None:
    os.write(_OUT, f"{text}\n".encode())


class Code:
    """The functions of the area's files, and what functions of their packages keep from one call to the next."""

    def __init__(self) -> None:
        self._functions: dict[str, list[types.FunctionType]] = defaultdict(list)
        self._caches: list[Any] = []
        self._plans: list[Any] = []
        """What the tests of plans keep from one test to the next, as each is made only once where nothing changes."""

    def find(self, files: set[str]) -> None:
        for one in gc.get_objects():
            if isinstance(one, types.FunctionType) and one.__code__.co_filename in files:
                self._functions[one.__code__.co_filename].append(one)
            elif isinstance(one, functools._lru_cache_wrapper) and one.__module__.startswith("gpustack."):  # noqa: SLF001
                self._caches += [one] if one.__module__.split(".")[1] in {"solve", "detect"} else []
            elif isinstance(one, functools._lru_cache_wrapper) and one.__module__ == "tests.golden_plans":  # noqa: SLF001
                self._plans.append(one)

    def forget(self) -> None:
        """Drop what was kept: an answer of the unchanged code would hide the change."""
        for one in self._caches:
            one.cache_clear()

    def apply(self, file: str, codes: list[types.CodeType]) -> None:
        """Give the functions of a file these codes."""
        self.forget()
        for one in self._plans:
            one.cache_clear()
        wanted = {(code.co_name, code.co_firstlineno): code for code in codes}
        for one in self._functions[file]:
            code = wanted.get((one.__code__.co_name, one.__code__.co_firstlineno))
            if code is not None:
                one.__code__ = code


_CODE = Code()


def _silence() -> None:
    for number in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("area", choices=AREAS)
    parser.add_argument("--mutants", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="files whose name holds this")
    parser.add_argument("--tests", nargs="+", help="in place of the area's tests")
    options = parser.parse_args()
    patterns, tests = AREAS[options.area]
    files = sorted(file for pattern in patterns for file in SOURCE.glob(pattern) if options.only in str(file))
    places = [
        (file, number, way)
        for file in files
        for number, (node, *_) in enumerate(_nodes(ast.parse(file.read_text(encoding="utf-8"))))
        for way, _ in ways(node)
    ]
    chosen = random.Random(options.seed).sample(places, min(options.mutants, len(places)))  # noqa: S311 (no secret)
    changes = Changes({str(file) for file in files}, chosen)
    os.chdir(ROOT)
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        before = pytest.main(["-q", "-p", "no:cacheprovider", *(options.tests or tests)], plugins=[changes])
    if before != 0:
        _say("the tests fail as the code is")
        return 2
    share = 1 - changes.survivors / len(chosen)
    _say(f"{len(chosen)} changes of {len(places)} possible, {len(chosen) - changes.survivors} noticed ({share:.0%})")
    return int(share < WANTED)


if __name__ == "__main__":
    sys.exit(main())
