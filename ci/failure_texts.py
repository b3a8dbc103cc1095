"""Every sentence that a check of `gpustack verify` can give as cause or cure, and the test that asserts it whole.

python3 ci/failure_texts.py [--all]

lists those that no test asserts, with --all the others too, each with its place. Standard library only.

A sentence is a string in src/gpustack/verify that holds several words; what is put into it at run time may be anything.
It is asserted whole where a string in the tests holds all of it. The reason of an outcome that is written where the
outcome is made has to be the whole of such a string, or of a line of it, not only a part.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src/gpustack/verify"
TESTS = ROOT / "tests"
GOLDEN = TESTS / "golden" / "verify"
"""Texts that a test compares whole, each on a line of its own behind a word and a colon."""

OUTCOMES = {"failed", "skipped", "needless", "errored"}
"""The functions of gpustack.verify.declare that make an outcome which is no pass."""

ELSEWHERE = {"bench.py", "bench_table.py", "samples", "writers"}
"""Folders and modules whose strings are no outcomes: measurements, programs that checks run, and forms of reports."""

LOOKED_FOR = {"compile", "search", "fullmatch", "match", "sub", "startswith", "endswith", "removeprefix", "run"}
"""Functions whose strings are compared with a text, or are words of a command."""

NOT_TOLD = {"check": ("title", "expects"), "once": (0,)}
"""Arguments that are not told of a failure: headings, and the name of what is asked once for all checks."""

HOLE = "\0"
"""Stands in a text for what is put in at run time."""


class Text(NamedTuple):
    """A text of the program: where, with holes, and whether it is all that an outcome says."""

    path: Path
    line: int
    words: str
    is_whole: bool

    @property
    def pattern(self) -> re.Pattern[str]:
        parts = [re.escape(part) for part in self.words.split(HOLE)]
        body = "[^\n]*?".join(parts)
        return re.compile(f"^{body}$" if self.is_whole else body, re.MULTILINE)

    @property
    def place(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"


def words_of(node: ast.AST) -> str | None:
    """The text of a literal, a formatted string or a sum of both; None for anything else."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(words_of(one) or "" if isinstance(one, ast.Constant) else HOLE for one in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            one, other = words_of(left), words_of(right)
            return None if one is None and other is None else (one or HOLE) + (other or HOLE)
    return None


def is_sentence(words: str) -> bool:
    """Whether people read this: several words, one of them no code."""
    if words.startswith(("-", "#", "\n", "import ")) or " " not in words.strip() or re.search(r"\(\?|\\w", words):
        return False  # an option, a program, a path, an expression
    told = re.sub(r"`[^`]*`", " ", words.replace(HOLE, " "))
    return len(re.findall(r"\b[a-zA-Z]{2,}\b", told)) >= 3


def is_pass(node: ast.Call, name: str) -> bool:
    """Whether a call makes the outcome of a check that holds: nothing of it is told of a failure."""
    status = next((keyword.value for keyword in node.keywords if keyword.arg == "status"), None)
    return name == "passed" or (name == "Outcome" and isinstance(status, ast.Constant) and status.value == "pass")


class Finder(ast.NodeVisitor):
    """Walks a module, and keeps what is told."""

    def __init__(self, path: Path) -> None:
        self.found: list[Text] = []
        self._path = path

    def visit(self, node: ast.AST) -> None:
        words = words_of(node)
        if words is not None:
            self._keep(node, words, is_whole=False)
            return
        super().visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        left_out = NOT_TOLD.get(name, ())
        if name in LOOKED_FOR or is_pass(node, name):
            return
        for number, argument in enumerate(node.args):
            words = words_of(argument)
            if name in OUTCOMES and number == 0 and words is not None:
                self._keep(argument, words, is_whole=True)
            if number not in left_out and not (name in OUTCOMES and number == 0 and words is not None):
                self.visit(argument)
        for keyword in node.keywords:
            if keyword.arg not in left_out:
                self.visit(keyword.value)
        self.visit(node.func)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring, or one of a constant
            self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        """What is looked for in a text is not told."""

    def visit_Dict(self, node: ast.Dict) -> None:
        for value in node.values:
            self.visit(value)

    def visit_Assign(self, node: ast.Assign) -> None:
        """What is raised gets its words from a variable of one of these names."""
        if not any(isinstance(one, ast.Name) and one.id in {"msg", "message"} for one in node.targets):
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """What is raised is no outcome."""

    def _keep(self, node: ast.AST, words: str, *, is_whole: bool) -> None:
        if is_sentence(words):
            self.found.append(Text(self._path, getattr(node, "lineno", 0), words, is_whole))
        for child in ast.walk(node):  # a condition inside may choose between texts
            if child is not node and isinstance(child, ast.FormattedValue):
                self.visit(child.value)


def told() -> Iterator[Text]:
    """Every text that a check may give."""
    for path in sorted(SOURCE.rglob("*.py")):
        if not ELSEWHERE & set(path.relative_to(SOURCE).parts):
            finder = Finder(path)
            finder.visit(ast.parse(path.read_text(encoding="utf-8")))
            yield from finder.found


class Asserted:
    """The strings of the tests."""

    @cached_property
    def strings(self) -> dict[str, str]:
        """Where each stands."""
        found: dict[str, str] = {}
        for path in sorted(TESTS.rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                words = words_of(node)
                if words and " " in words.strip():
                    found.setdefault(words, f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}")
        for path in sorted(GOLDEN.glob("*.txt")):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
                found.setdefault(line.partition(": ")[2], f"{path.relative_to(ROOT)}:{number}")
        return found

    @cached_property
    def _together(self) -> str:
        return "\n\1\n".join(self.strings)

    def place(self, text: Text) -> str | None:
        """Where a text is asserted, None where it is not."""
        longest = max(text.words.split(HOLE), key=len)
        if longest not in self._together:
            return None
        held = ((words, where) for words, where in self.strings.items() if longest in words)
        return next((where for words, where in held if text.pattern.search(words)), None)


def main() -> int:
    asserted = Asserted()
    open_ones = 0
    for text in told():
        where = asserted.place(text)
        if where is None or "--all" in sys.argv:
            print(f"{text.place}: {text.words.replace(HOLE, '{}')!r}\n    {where or 'NOT ASSERTED'}")
        open_ones += where is None
    print(f"{open_ones} of {sum(1 for _ in told())} are not asserted whole")
    return int(bool(open_ones))


if __name__ == "__main__":
    sys.exit(main())
