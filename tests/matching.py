"""Lines that an expression of the facts finds: one at least for each of its alternatives."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from gpustack.matrix.expressions import parser

_CATEGORIES = {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " ", "CATEGORY_NOT_WORD": " "}
_REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}
_WAYS = ((0, "a"), (1, "a"), (1, " "))
"""How often a part stands that may be absent, and what stands for any character."""


def lines_of(expression: str) -> list[str]:
    """Lines that the expression finds, with what may be absent and without it."""
    tree: Any = parser.parse(expression)
    tries = (line for one in _WAYS for line in _sequence(tree, *one))
    return [line for line in dict.fromkeys(tries) if re.search(expression, line)]


def _sequence(items: Iterable[tuple[Any, Any]], most: int, other: str) -> list[str]:
    found = [""]
    for operator, argument in items:
        parts = _part(str(operator), argument, most, other)
        count = max(len(found), len(parts))
        found = [found[number % len(found)] + parts[number % len(parts)] for number in range(count)]
    return found


def _part(operator: str, argument: Any, most: int, other: str) -> list[str]:
    if operator == "LITERAL":
        return [chr(argument)]
    if operator == "IN":
        return [_one_of(argument, other)]
    if operator in {"ANY", "NOT_LITERAL"}:
        return [other]
    if operator in _REPEATS:
        return [text * max(argument[0], most) for text in _sequence(argument[-1], most, other)]
    if operator == "SUBPATTERN":
        return _sequence(argument[-1], most, other)
    if operator == "ASSERT" and argument[0] > 0:
        return _sequence(argument[1], most, other)
    if operator == "BRANCH":
        return [text for branch in argument[1] for text in _sequence(branch, most, other)]
    return [""]


def _one_of(items: list[tuple[Any, Any]], other: str) -> str:
    """A character of a class."""
    operator, argument = items[0]
    match str(operator):
        case "NEGATE":
            return other
        case "LITERAL":
            return chr(argument)
        case "RANGE":
            return chr(argument[0])
    return _CATEGORIES.get(str(argument), "a")
