"""Expressions that are compiled late have no fault that only a user's host would show."""

from __future__ import annotations

import gc
import pkgutil
from importlib import import_module

import gpustack.detect
from gpustack.patterns import _Later, later


def test_every_late_expression_compiles() -> None:
    for module in pkgutil.walk_packages(gpustack.detect.__path__, "gpustack.detect."):
        import_module(module.name)
    found = [one for one in gc.get_objects() if type(one) is _Later]
    assert len(found) > 100
    for one in found:
        assert one.pattern  # looked up in the compiled expression


def test_it_answers_as_the_compiled_one_does() -> None:
    assert later(r"a(\d)").search("xa7") is not None
    assert later(rb"a(\d)").findall(b"a1a2") == [b"1", b"2"]
    assert later(r"A", 2).pattern == "A"
    assert later(r"A", 2).fullmatch("a") is not None
