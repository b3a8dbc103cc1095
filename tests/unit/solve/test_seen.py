"""A release that was only seen: it exists, and nobody has read what it requires."""

from __future__ import annotations

import pytest
from tests.small_matrix import HOPPER, SUBJECTS, host, small_matrix

from gpustack.errors import GpustackError
from gpustack.matrix.index import Matrix
from gpustack.model.request import Request
from gpustack.solve.check import check
from gpustack.solve.requirements import parse_requirement
from gpustack.solve.resolve import resolve

CUDNN = SUBJECTS["cudnn"].replace("status: word,", "status: word, date: date,")
SEEN = "      - {version: 9.15.2, date: 2026-11-06, status: seen, src: [page]}\n  rules:"


@pytest.fixture(scope="module")
def facts() -> Matrix:
    return small_matrix(cudnn=CUDNN.replace("  rules:", SEEN, 1))


def request(*texts: str) -> Request:
    return Request(requirements=tuple(parse_requirement(text) for text in texts))


@pytest.mark.parametrize("asked", ["cudnn==9.15.2", "cudnn>=9.15", "cudnn==9.15"])
def test_check_says_the_day_and_the_nearest_judged_release(facts: Matrix, asked: str) -> None:
    verdict = check(facts, host(HOPPER), request(asked, "cuda==12.2.0"))
    assert verdict.verdict == "unknown"
    assert not verdict.compatible
    (reason,) = {one.reason for one in verdict.unknown if one.reason.startswith(asked)}
    assert reason.startswith(
        f"{asked}: it was released on 2026-11-06, and its requirements are not in the facts yet;"
        " the nearest known is 9.14.0"
    )


def test_check_says_when_it_was_read_if_the_day_is_unknown() -> None:
    facts = small_matrix(cudnn=CUDNN.replace("  rules:", SEEN.replace(" date: 2026-11-06,", ""), 1))
    verdict = check(facts, host(HOPPER), request("cudnn==9.15.2"))
    assert "it was released by 2026-11-21, and its requirements" in verdict.unknown[0].reason


def version_of(facts: Matrix, asked: str) -> str:
    found = resolve(facts, host(HOPPER), request(asked)).pick("cudnn")
    return found.version if found else ""


@pytest.mark.parametrize("asked", ["cudnn", "cudnn>=9", "cudnn<10"])
def test_plan_takes_a_judged_release(facts: Matrix, asked: str) -> None:
    assert version_of(facts, asked) == "9.14.0"


def test_plan_takes_it_if_its_version_is_asked_for_and_says_that_nothing_is_judged(facts: Matrix) -> None:
    found = resolve(facts, host(HOPPER), request("cudnn==9.15.2"))
    assert {pick.version for pick in found.picks if pick.component == "cudnn"} == {"9.15.2"}
    assert any("so nothing can be judged of it" in one.reason for one in found.unknown)


def test_plan_does_not_take_it_because_a_range_contains_nothing_else(facts: Matrix) -> None:
    with pytest.raises(GpustackError):
        resolve(facts, host(HOPPER), request("cudnn>=9.15"))
