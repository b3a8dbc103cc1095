"""Every recorded or hand-built host gives the values and the problems that its expect.json names, and no others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.finding_goldens import Findings

from gpustack.detect.api import detect
from gpustack.detect.hostfile import dump, parse
from gpustack.detect.text import lines
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host

FIXTURES = Path(__file__).parents[2] / "fixtures" / "hosts"
NAMES = sorted(path.parent.name for path in FIXTURES.glob("*/expect.json"))


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def host_at(name: str, matrix: Matrix) -> Host:
    folder = FIXTURES / name
    return detect(folder if (folder / "evidence.json").is_file() else folder / "root", matrix)


def value_at(document: Any, path: str) -> Any:
    for part in path.split("."):
        document = document[int(part)] if isinstance(document, list) else document.get(part)
        if document is None:
            return None
    return document


@pytest.mark.parametrize("name", NAMES)
def test_host_is_as_expected(name: str, matrix: Matrix, findings: Findings) -> None:
    host = host_at(name, matrix)
    findings.compare(f"fixtures: {name}", host.problems)
    expected = json.loads((FIXTURES / name / "expect.json").read_text(encoding="utf-8"))
    document = json.loads(dump(host))
    values = {path: value_at(document, path) for path in expected["values"]}
    assert values == expected["values"]
    texts = {problem.id: f"{problem.message} {problem.fix}" for problem in host.problems}
    unexpected = [i for i in texts if not any(i in wanted.split("|") for wanted in expected["problems"])]
    assert unexpected == []
    for wanted, words in expected["problems"].items():
        found = [text for identity, text in texts.items() if identity in wanted.split("|")]
        assert any(re.search(re.escape(words), text) for text in found), f"no {wanted} with {words!r} in {texts}"


@pytest.mark.parametrize("name", NAMES)
def test_every_host_survives_its_document_and_has_a_text(name: str, matrix: Matrix) -> None:
    host = host_at(name, matrix)
    assert parse(dump(host).encode()) == host
    assert all("\n" not in line for line in lines(host))


@pytest.mark.parametrize("name", NAMES)
def test_every_fixture_says_where_it_comes_from(name: str) -> None:
    text = (FIXTURES / name / "README.md").read_text(encoding="utf-8")
    assert "by hand" in text or "recorded" in text.lower()


def test_every_problem_has_a_cure_and_no_problem_repeats(matrix: Matrix) -> None:
    for name in NAMES:
        problems = host_at(name, matrix).problems
        assert all(problem.fix for problem in problems), name
        assert len({(problem.id, problem.message) for problem in problems}) == len(problems), name


@pytest.mark.parametrize("name", NAMES)
def test_a_host_without_its_problems_is_the_same_otherwise(name: str, matrix: Matrix) -> None:
    folder = FIXTURES / name
    root = folder if (folder / "evidence.json").is_file() else folder / "root"
    plain = dict.fromkeys(("problems", "looked", "environments"))
    whole, judged = (json.loads(dump(detect(root, matrix, with_problems=wanted))) | plain for wanted in (False, True))
    assert whole == judged
