"""Questions from public evidence, asked of ``gpustack check`` as a user asks them.

Each question stands with the verdict that its evidence gives, written down before the program was asked. Where the
evidence left it open how the program says no, the verdict is that of its first answer; ``says`` names words of the answer.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Call, Ended
from tests.reading import cases_in

FOLDER = Path(__file__).parent.parent / "cases" / "questions"
KEYS = {"file", "id", "check", "host", "options", "expect", "between", "warning_ok", "says", "why", "src"}
VERDICTS = {0: "compatible", 3: "incompatible", 7: "unknown"}
LEAST = 1150
OF_HOST = {"gpu", "os", "python", "glibc", "platform"}
WITHOUT_MEANING = ("error[unknown-", "error[usage]")
"""How a refusal begins that knows a name, a system or an option not at all; it is no verdict on a host."""


def load_cases() -> list[dict[str, Any]]:
    """Every question of every file, with the name of its file."""
    return [{"file": path.stem, **case} for path in sorted(FOLDER.glob("*.yaml")) for case in cases_in(path)["cases"]]


CASES = load_cases()


def arguments(case: dict[str, Any]) -> list[str]:
    """The command line of a question."""
    host = [part for name, value in case["host"].items() for part in (f"--{name}", str(value))]
    return ["check", *case["check"], "--format", "json", *host, *case.get("options", [])]


def verdict_in(ended: Ended, said: list[str]) -> str:
    """What the program answered; ``refused`` is a host that cannot be."""
    if ended.code == 2 and (not ended.err.startswith(WITHOUT_MEANING) or (said and are_in(ended, said))):
        return "refused"
    return VERDICTS.get(ended.code, ended.err)


def are_in(ended: Ended, words: list[str]) -> bool:
    """Whether the answer or the refusal has all these words."""
    return all(word.casefold() in f"{ended.out}{ended.err}".casefold() for word in words)


def blames(conflict: dict[str, Any], parts: list[str]) -> bool:
    """Whether a conflict is about all these: components, or parts of the host."""
    starts = [(f"{part}:",) if part in OF_HOST else (f"{part}=", f"{part}>", f"{part}<") for part in parts]
    return all(any(item.startswith(start) for item in conflict["between"]) for start in starts)


@pytest.mark.parametrize("case", CASES, ids=[f"{case['file']}-{case['id']}" for case in CASES])
def test_question(call: Call, case: dict[str, Any]) -> None:
    ended = call(*arguments(case))
    says = case.get("says", [])
    verdict = verdict_in(ended, says)
    assert verdict == case["expect"], ended.out
    assert are_in(ended, says), ended
    if verdict == "compatible":
        assert case.get("warning_ok") or not json.loads(ended.out)["warnings"]
    if verdict == "incompatible":
        conflicts = json.loads(ended.out)["conflicts"]
        assert any(blames(conflict, case.get("between", [])) for conflict in conflicts), conflicts
        assert all(conflict["reason"] and conflict["sources"] for conflict in conflicts)
    if verdict == "unknown":
        assert json.loads(ended.out)["unknown"]


def test_there_are_enough_questions_and_a_quarter_of_them_is_no_plain_yes() -> None:
    counted = Counter(case["expect"] for case in CASES)
    assert set(counted) <= {*VERDICTS.values(), "refused"}
    assert len(CASES) >= LEAST
    assert len(CASES) - counted["compatible"] >= len(CASES) / 4


def test_every_question_is_whole_and_names_its_source() -> None:
    assert len({case["id"] for case in CASES}) == len(CASES)
    for case in CASES:
        assert set(case) <= KEYS, case["id"]
        assert case["why"], case["id"]
        assert case["src"], case["id"]
        assert all(address.startswith(("https://", "pkg:")) for address in case["src"]), case["id"]
        assert bool(case.get("between")) == (case["expect"] == "incompatible"), case["id"]
