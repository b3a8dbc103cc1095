"""Questions from public evidence, asked of ``gpustack plan``: the stack, or the refusal with the essential hint."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Call
from tests.reading import cases_in

FILE = Path(__file__).parent.parent / "cases" / "plan-questions.yaml"
CASES = cases_in(FILE)["cases"]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_plan_question(call: Call, case: dict[str, Any]) -> None:
    host = [word for name, value in case["host"].items() for word in (f"--{name}", value)]
    ended = call("plan", *case["plan"], "--format", "json", *host)
    if "refused" in case:
        codes = case["refused"] if isinstance(case["refused"], list) else [case["refused"]]
        assert ended.code in codes, ended
        assert not ended.out
        assert all(word.casefold() in ended.err.casefold() for word in case["says"]), ended.err
        return
    assert ended.code == 0, ended.err
    stack = json.loads(ended.out)["stack"]
    for component, pattern in case["stack"].items():
        assert re.search(pattern, stack[component]["version"]), stack[component]


def test_every_plan_question_names_its_source() -> None:
    assert all(case["why"] and case["src"][0].startswith("https://") for case in CASES)
