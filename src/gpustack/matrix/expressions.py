"""The texts of which every match of an expression holds one, so that few lines have to be searched for it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

if sys.version_info >= (3, 11):
    from re import _parser as parser  # type: ignore[attr-defined]
else:
    import sre_parse as parser

FEWEST = 3
"""Shorter texts are in most lines."""


def words_of(expression: str) -> tuple[str, ...]:
    """Texts in lower case: whatever ``expression`` finds holds one of them; () where that is unknown.

    Raises re.error for no expression.
    """
    tree: Any = parser.parse(expression)
    found = _of_sequence(tree)
    return tuple(sorted(found)) if found and min(map(len, found)) >= FEWEST else ()


def _of_sequence(items: Iterable[tuple[Any, Any]]) -> frozenset[str]:
    """The best of what the parts of a sequence demand: the one whose shortest text is longest."""
    choices: list[frozenset[str]] = []
    run = ""
    for operator, argument in items:
        if str(operator) == "LITERAL":
            run += chr(argument).lower()
            continue
        choices += [frozenset({run}), _of_part(str(operator), argument)]
        run = ""
    choices.append(frozenset({run}))
    return max(
        (one for one in choices if one and all(one)),
        key=lambda one: (min(map(len, one)), -len(one)),
        default=frozenset(),
    )


def _of_part(operator: str, argument: Any) -> frozenset[str]:  # noqa: ANN401 (a tree of the standard library's parser)
    """What one part demands: nothing where it may be absent, or stand for many characters."""
    if operator == "SUBPATTERN":
        return _of_sequence(argument[-1])
    if operator in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"} and argument[0] > 0:
        return _of_sequence(argument[-1])
    if operator == "ATOMIC_GROUP":
        return _of_sequence(argument)
    if operator == "ASSERT" and argument[0] > 0:
        return _of_sequence(argument[1])
    if operator == "BRANCH":
        branches = [_of_sequence(branch) for branch in argument[1]]
        return frozenset().union(*branches) if all(branches) else frozenset()
    return frozenset()
