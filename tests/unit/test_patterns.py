"""Patterns that are compiled at their first use: each of them can be."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

import gpustack
from gpustack.patterns import late


def modules() -> list[str]:
    found = pkgutil.walk_packages(gpustack.__path__, "gpustack.")
    return [one.name for one in found if ".samples" not in one.name and not one.name.endswith("__main__")]


def test_every_pattern_of_the_program_compiles() -> None:
    names = [
        (module, name, value)
        for module in modules()
        for name, value in vars(importlib.import_module(module)).items()
        if type(value) is type(late(""))
    ]
    assert len(names) > 40
    for module, name, value in names:
        assert isinstance(value.pattern, str | bytes), (module, name)


def test_a_late_pattern_answers_as_a_compiled_one() -> None:
    mine, theirs = late(r"(\d+)-b", re.IGNORECASE), re.compile(r"(\d+)-b", re.IGNORECASE)
    for text in ("12-B x 3-b", "", "b"):
        assert mine.findall(text) == theirs.findall(text)
        assert mine.sub(r"<\1>", text) == theirs.sub(r"<\1>", text)
        assert bool(mine.fullmatch(text)) == bool(theirs.fullmatch(text))
    with pytest.raises(re.error):
        late("(").match("")
