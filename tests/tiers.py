"""Which variants of a test, and how many of its random examples, run every time, and which only with ``--slow``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

_is_slow = [False]


def with_slow_tests(*, is_slow: bool) -> None:
    """Say whether the slow tests run as well: then all random examples are taken, else a third of them."""
    _is_slow[:] = [is_slow]


def examples(number: int) -> int:
    """How many of hypothesis's examples a test takes that takes so many with ``--slow``."""
    return number if _is_slow[0] else -(-number // 3)


def tiers(variants: Mapping[str, Any], *always: str) -> list[Any]:
    """A parameter for each variant, by its name; those that are not named belong to the slow tests."""
    assert variants.keys() >= set(always)
    found = []
    for name, variant in variants.items():
        values = variant if type(variant) is tuple else (variant,)
        found.append(pytest.param(*values, id=name, marks=() if name in always else pytest.mark.slow))
    return found
