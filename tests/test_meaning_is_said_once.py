"""Nobody wins back from the words of a command what the types of actions say; package managers' words stand in one place.

Read by their syntax trees: a match against a sequence of words, a comparison with a command's words, a search in them, and
a command of a package manager that is written out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "gpustack"
READERS = {"plan/former.py", "plan/installing.py", "plan/commands.py"}
"""Who may read words: what reads the plans of the first edition, and what spells actions."""

PROGRAMS = {"apt-get", "apt-mark", "dpkg", "dnf", "yum", "tdnf", "zypper", "rpm", "systemctl", "pip"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for package in ("plan", "render", "install"):
        for path in sorted((SOURCES / package).rglob("*.py")):
            name = str(path.relative_to(SOURCES))
            if not name.startswith("plan/managers/") and name not in READERS:
                yield name, ast.parse(path.read_text(encoding="utf-8"))


def is_words(node: ast.expr) -> bool:
    """Whether an expression is the words of a command, or some of them."""
    if isinstance(node, ast.Subscript):
        return is_words(node.value)
    return (isinstance(node, ast.Name) and node.id == "argv") or (
        isinstance(node, ast.Attribute) and node.attr in {"argv", "commands", "undo"}
    )


def says_text(node: ast.expr) -> bool:
    return any(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in ast.walk(node))


def readings(tree: ast.Module) -> Iterator[int]:
    """The lines on which words of a command are taken for what they mean."""
    for node in ast.walk(tree):
        if isinstance(node, ast.MatchSequence) and any(isinstance(one, ast.MatchValue) for one in node.patterns):
            yield node.lineno
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(is_words, sides)) and any(says_text(one) for one in sides if not is_words(one)):
                yield node.lineno


def spellings(tree: ast.Module) -> Iterator[int]:
    """The lines on which a command of a package manager, or of the system's services, is written out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.List) and len(node.elts) > 1:
            first = node.elts[0]
            rest = [one for one in node.elts[1:] if isinstance(one, ast.Constant) and one.value not in PROGRAMS]
            if isinstance(first, ast.Constant) and first.value in PROGRAMS and rest:
                yield node.lineno


def test_no_words_of_a_command_are_read_for_what_they_mean() -> None:
    found = [f"{name}:{line}" for name, tree in modules() for line in readings(tree)]
    assert found == []


def test_commands_of_package_managers_are_spelled_in_one_place() -> None:
    found = [f"{name}:{line}" for name, tree in modules() for line in spellings(tree)]
    assert found == []


def test_the_test_itself_sees_what_it_looks_for() -> None:
    read = ast.parse('if argv[:2] == ("rpm", "--import"):\n    pass\nmatch x:\n    case ("dnf", *_):\n        pass\n')
    assert sorted(readings(read)) == [1, 4]
    assert list(spellings(ast.parse('x = ("apt-get", "-y", "install", name)'))) == [1]
    assert list(readings(ast.parse('any("install" in argv for argv in step.commands)'))) == [1]
