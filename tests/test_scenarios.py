"""Every trouble in the catalogue of users' scenarios names what answers it, and what is named exists."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.reading import cases_in

ROOT = Path(__file__).resolve().parents[1]
SCENARIOS: list[dict[str, Any]] = cases_in(ROOT / "tests/cases/scenarios.yaml")["scenarios"]


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[one["thread"][0].partition("/")[2] for one in SCENARIOS])
def test_a_trouble_is_answered_by_what_exists(scenario: dict[str, Any]) -> None:
    assert scenario["trouble"]
    answers = [scenario.get(kind, []) for kind in ("tests", "trees", "cases")]
    assert any(answers) != bool(scenario.get("not")), "a trouble has an answer, or says why it has none"
    for name in scenario.get("tests", []):
        path, _, function = name.partition("::")
        assert function in functions(path), name
    for tree in scenario.get("trees", []):
        assert (ROOT / "tests/fixtures/hosts" / tree / "expect.json").is_file(), tree
    for cases in scenario.get("cases", []):
        text = (ROOT / cases).read_text(encoding="utf-8")
        assert any(thread in text for thread in scenario["thread"]), f"{cases} cites none of {scenario['thread']}"


def test_no_thread_stands_twice() -> None:
    threads = [thread for one in SCENARIOS for thread in one["thread"]]
    assert len(threads) == len(set(threads))
