"""Our YAML says exactly what it was given, to a real reader."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.render.cases import HOSTILE, texts

from gpustack.render.yaml_text import Flow, Text, lines

values = st.recursive(
    texts | st.booleans() | st.integers(0, 10**6) | texts.map(Text) | st.lists(texts).map(Flow),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)


def plain(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(texts, values, min_size=1, max_size=4), st.integers(0, 3))
def test_a_map_comes_back(value: dict[str, Any], depth: int) -> None:
    text = "\n".join(lines(value, 2 * depth)) + "\n"
    assert yaml.safe_load(text) == plain(value)


@pytest.mark.parametrize("text", HOSTILE, ids=repr)
@pytest.mark.parametrize("kind", [str, Text])
def test_a_string_comes_back(text: str, kind: type[str]) -> None:
    assert yaml.safe_load("\n".join(lines({"a": [kind(text)], "b": kind(text), "c": Flow([text])}))) == {
        "a": [text],
        "b": text,
        "c": [text],
    }


def test_what_reads_well_stands_as_it_is() -> None:
    assert lines({"name": "Install cuda 13.2.2", "mode": "0644", "content": "a\n  b\n"}) == [
        "name: Install cuda 13.2.2",
        'mode: "0644"',
        "content: |",
        "  a",
        "    b",
    ]


def test_long_strings_are_broken_after_spaces_and_long_paths_after_slashes() -> None:
    for text in ("word: " * 60, "https://" + "folder/" * 40):
        found = lines({"key": {"inner": text}})
        assert max(map(len, found)) <= 160
        assert yaml.safe_load("\n".join(found)) == {"key": {"inner": text}}
