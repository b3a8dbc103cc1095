"""Combinations that are known to work, known not to work, or not known, each with the page that says so."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.reading import cases_in

from gpustack.detect.describe import describe
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.request import Request
from gpustack.model.resolution import Conflict, Verdict
from gpustack.solve.check import check
from gpustack.solve.requirements import merge, parse_requirement

FOLDER = Path(__file__).parent / "cases" / "combinations"
KEYS = {"id", "check", "host", "expect", "between", "warning_ok", "why", "src"}
LEAST = {"compatible": 150, "incompatible": 150, "unknown": 30}


def load_cases() -> list[dict[str, Any]]:
    """Every case of every file, with the name of its file."""
    return [{"file": path.stem, **case} for path in sorted(FOLDER.glob("*.yaml")) for case in cases_in(path)["cases"]]


CASES = load_cases()


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def verdict_on(matrix: Matrix, case: dict[str, Any]) -> Verdict:
    """What ``gpustack check`` decides for a case."""
    told = case["host"]
    gpus = told.get("gpu", [])
    host = describe(
        matrix,
        os=told["os"],
        arch=told["arch"],
        gpus=(gpus,) if isinstance(gpus, str) else tuple(gpus),
        driver=told.get("driver"),
    )
    requirements = merge(tuple(parse_requirement(text) for text in case["check"]))
    return check(matrix, host, Request(requirements=requirements))


def names(conflict: Conflict, part: str) -> bool:
    """Whether a conflict is said to be about ``part``: a component, or the GPU or system of the host."""
    if part in {"gpu", "os"}:
        return any(item.startswith(f"{part}:") for item in conflict.between)
    return any(item == part or item.startswith((f"{part}=", f"{part}>", f"{part}<")) for item in conflict.between)


@pytest.mark.parametrize("case", CASES, ids=[f"{case['file']}-{case['id']}" for case in CASES])
def test_combination(matrix: Matrix, case: dict[str, Any]) -> None:
    verdict = verdict_on(matrix, case)
    match case["expect"]:
        case "compatible":
            assert verdict.compatible, (verdict.conflicts, verdict.unknown)
            assert case.get("warning_ok") or not verdict.warnings
        case "incompatible":
            assert not verdict.compatible
            blamed = [conflict for conflict in verdict.conflicts if all(names(conflict, p) for p in case["between"])]
            assert blamed, [conflict.between for conflict in verdict.conflicts] or verdict.unknown
            assert all(conflict.sources for conflict in verdict.conflicts)
            assert all(conflict.reason for conflict in verdict.conflicts)
        case _:
            assert not verdict.compatible
            assert not verdict.conflicts
            assert verdict.unknown


def test_there_are_enough_cases_of_each_kind() -> None:
    counted = Counter(case["expect"] for case in CASES)
    assert set(counted) == set(LEAST)
    assert all(counted[kind] >= least for kind, least in LEAST.items())


def test_every_case_is_whole_and_names_its_source() -> None:
    assert len({(case["file"], case["id"]) for case in CASES}) == len(CASES)
    for case in CASES:
        assert set(case) - {"file"} <= KEYS, case["id"]
        assert case["why"], case["id"]
        assert case["src"], case["id"]
        assert all(len(address) > len("https://") for address in case["src"]), case["id"]
        assert bool(case.get("between")) == (case["expect"] == "incompatible"), case["id"]


def test_no_combination_stands_twice_with_two_answers() -> None:
    answers: dict[str, str] = {}
    for case in CASES:
        question = f"{sorted(case['check'])} {case['host']}"
        assert answers.setdefault(question, case["expect"]) == case["expect"], case["id"]
