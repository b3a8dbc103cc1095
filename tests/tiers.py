"""Which variants of a test run every time, and which only with ``--slow``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest


def tiers(variants: Mapping[str, Any], *always: str) -> list[Any]:
    """A parameter for each variant, by its name; those that are not named belong to the slow tests."""
    assert variants.keys() >= set(always)
    found = []
    for name, variant in variants.items():
        values = variant if type(variant) is tuple else (variant,)
        found.append(pytest.param(*values, id=name, marks=() if name in always else pytest.mark.slow))
    return found
