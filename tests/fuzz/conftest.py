"""What the fuzz tests share: a folder to write into, and ways of damaging what is good."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from gpustack.matrix.index import Matrix, load_matrix


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples: each writes the same file anew."""
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    return load_matrix()


@pytest.fixture(scope="session")
def damaged() -> Callable[[bytes], st.SearchStrategy[bytes]]:
    """Damage bytes: some left out, doubled or replaced."""

    @st.composite
    def strategy(draw: st.DrawFn, good: bytes) -> bytes:
        content = bytearray(good)
        for _ in range(draw(st.integers(1, 4))):
            start = draw(st.integers(0, len(content)))
            end = min(len(content), start + draw(st.integers(0, 12)))
            content[start:end] = draw(st.binary(max_size=8) | st.sampled_from(_SIGNS))
        return bytes(content)

    return strategy


_SIGNS = (b"[", b"]", b"{", b"}", b'"', b"'", b"\n", b"=", b":", b"-", b"&a ", b"*a", b"!!x ", b"#", b",", b"\0", b"9")


@pytest.fixture(scope="session")
def mutated() -> Callable[[Any], st.SearchStrategy[Any]]:
    """Change a JSON document: random values anywhere in it are replaced, left out or doubled."""

    @st.composite
    def strategy(draw: st.DrawFn, good: Any) -> Any:
        document = _copied(good)
        for _ in range(draw(st.integers(1, 3))):
            _change(draw, document)
        return document

    return strategy


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.sampled_from(
        ("", "0", "-1", "580.95.05", "8.9", "ubuntu", "apt", "gpustack/host/v1", "../../etc", "$(x)", "\n")
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _change(draw: st.DrawFn, document: Any) -> None:
    place = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = draw(st.sampled_from(keys))
        inner = place[key]
        if isinstance(inner, dict | list) and inner and draw(st.integers(0, 5)):
            place = inner
            continue
        action = draw(st.sampled_from(("alike", "alike", "alike", "replace", "drop", "double")))
        if action == "drop":
            del place[key]
        elif action == "double" and isinstance(place, list):
            place.append(inner)
        else:
            place[key] = draw(_alike(inner) if action == "alike" else JSON)
        return


def _alike(value: Any) -> st.SearchStrategy[Any]:
    """Another value of the same kind: what a reader that only looks at kinds lets through."""
    if isinstance(value, bool):
        return st.booleans()
    if isinstance(value, int):
        return st.integers(0, 2**40)
    if isinstance(value, str) or value is None:
        return st.sampled_from(ODD_TEXTS) | st.text(max_size=8)
    return st.just(type(value)()) if isinstance(value, list | dict) else JSON


ODD_TEXTS = (
    "", " ", "0", "-1", "ada", "9.x", "99999999999999999999.1", "580", "580.95.05", "12.4", "8.9", "ubuntu", "apt", "dnf",
    "zypper", "windows", "x86_64", "wsl", "container", "open", "proprietary", "network", "required", "../../etc", "$(x)", "\n",
)  # fmt: skip
