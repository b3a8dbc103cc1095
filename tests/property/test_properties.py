"""What holds for every request on every host, tried on random ones over the real facts."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.property import worlds
from tests.property.independent import breaches
from tests.tiers import examples

from gpustack.errors import GpustackError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.facts import COMPONENTS, PROPERTIES
from gpustack.model.host import Host
from gpustack.model.request import Request, Requirement
from gpustack.model.resolution import Resolution
from gpustack.solve.causes import Asked, Constraint, Flavour, HostLimit, Offered, Pair
from gpustack.solve.check import check
from gpustack.solve.conflict import smallest_cause
from gpustack.solve.question import Question
from gpustack.solve.resolve import resolve
from gpustack.solve.search import Search
from gpustack.versions import is_within

CONSTRAINTS: frozenset[Constraint] = frozenset(
    [
        Flavour(),
        *(kind(name) for kind in (Asked, Offered) for name in COMPONENTS),
        *(HostLimit(name, prop) for name in COMPONENTS for prop in PROPERTIES),
        *(Pair(one, other) for one in COMPONENTS for other in COMPONENTS if one != other),
    ]
)
"""Every constraint that a question can have."""

OTHER_FACTS = """\
schema: gpustack/matrix/v1
subject: {subject}
sources:
  own: {{address: "https://example.com/other", known: reported, read: 2026-11-21}}
tables:
  releases:
    about: "A release far from all others."
    key: [version]
    fields: {{version: version, status: word}}
    rows:
      - {{version: "0.0.7", status: withdrawn, src: [own]}}
  rules:
    about: "A rule about that release alone."
    key: [id]
    fields: {{id: word, of: text, needs: word, any: list of range}}
    rows:
      - {{id: other-row, of: "{subject}==0.0.7", needs: driver, any: [">=999"], src: [own]}}
"""


@worlds.STEADY
@given(worlds.hosts, worlds.requests)
def test_an_independent_checker_accepts_every_resolution(host: Host, request: Request) -> None:
    found = worlds.answer(host, request)
    assume(found is not None)
    assert found is not None
    stack = {pick.component: pick.version for pick in found.picks}
    assert breaches(stack, {pick.component: pick.method for pick in found.picks}, host) == []
    for requirement in request.requirements:
        assert not requirement.versions or is_within(stack[requirement.component], requirement.versions)


def test_the_independent_checker_sees_what_is_wrong() -> None:
    host = worlds.described("ubuntu22.04", ("H200",), None)
    assert breaches({"cuda": "13.0.2", "driver": "470.256.02"}, {}, host)
    assert breaches({"driver": "580.95.05"}, {}, host) == ["fabric-manager-needed: no fabric-manager"]
    assert breaches({"driver": "580.95.05", "fabric-manager": "580.95.05"}, {}, host) == []
    assert breaches({"cudnn": "9.10.2.21", "cuda": "13.0.2", "driver": "580.95.05"}, {"fabric-manager": ""}, host)


@settings(worlds.STEADY, max_examples=examples(25))
@given(worlds.hosts, worlds.clashes, st.sampled_from(("plan", "check")))
def test_the_cause_of_every_conflict_is_minimal(host: Host, request: Request, mode: Literal["plan", "check"]) -> None:
    question = Question(worlds.facts(), host, request, mode=mode)
    assume(Search(question).run() is None)
    cause = smallest_cause(Search(question))
    assert cause
    assert Search(question, CONSTRAINTS - cause).run() is None
    for member in cause:
        assert Search(question, CONSTRAINTS - cause | {member}).run() is not None, member


@worlds.STEADY
@given(worlds.hosts, worlds.requests)
def test_relaxing_a_requirement_never_makes_it_unsolvable(host: Host, request: Request) -> None:
    assume(worlds.answer(host, request) is not None)
    for requirement in request.requirements:
        others = tuple(other for other in request.requirements if other is not requirement)
        loose = Requirement(component=requirement.component)
        assert worlds.answer(host, msgspec.structs.replace(request, requirements=(*others, loose))) is not None
        if others:
            assert worlds.answer(host, msgspec.structs.replace(request, requirements=others)) is not None


@pytest.fixture(scope="module")
def with_other_facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Matrix]:
    """For each of some components the facts with a row about it that concerns nobody else."""
    found = {}
    for subject in ("ffmpeg", "triton", "container-toolkit"):
        folder = tmp_path_factory.mktemp(subject)
        (folder / "own.yaml").write_text(OTHER_FACTS.format(subject=subject), encoding="utf-8")
        found[subject] = load_matrix(folder)
    return found


@settings(worlds.STEADY, max_examples=examples(40))
@given(host=worlds.hosts, request=worlds.requests)
def test_an_unrelated_row_never_changes_an_answer(
    host: Host, request: Request, with_other_facts: dict[str, Matrix]
) -> None:
    plain = outcome(worlds.facts(), host, request)
    asked = {requirement.component for requirement in request.requirements}
    for subject, matrix in with_other_facts.items():
        if subject not in asked:
            assert outcome(matrix, host, request) == plain


@worlds.STEADY
@given(worlds.hosts, worlds.requests)
def test_check_never_refuses_what_was_picked(host: Host, request: Request) -> None:
    found = worlds.answer(host, request)
    assume(found is not None)
    assert found is not None
    pinned = tuple(Requirement(component=pick.component, versions=f"=={pick.version}") for pick in found.picks)
    verdict = check(worlds.facts(), host, Request(requirements=pinned))
    assert verdict.conflicts == ()
    assert verdict.unknown == ()


def outcome(matrix: Matrix, host: Host, request: Request) -> bytes:
    """The whole answer as bytes, a refusal with its words included."""
    try:
        found: Resolution = resolve(matrix, host, request)
    except GpustackError as error:
        return f"{type(error).__name__} {error.message} {error.where} {error.hint}".encode()
    return msgspec.json.encode(found)


@lru_cache(maxsize=1)
def loaded_again() -> Matrix:
    return load_matrix()


@settings(worlds.STEADY, max_examples=examples(30))
@given(worlds.hosts, worlds.requests)
def test_the_same_input_gives_the_same_bytes(host: Host, request: Request) -> None:
    backwards = msgspec.structs.replace(request, requirements=request.requirements[::-1])
    assert outcome(worlds.facts(), host, request) == outcome(loaded_again(), host, request)
    found, turned = worlds.answer(host, request), worlds.answer(host, backwards)
    assert (found and [pick.version for pick in found.picks]) == (turned and [pick.version for pick in turned.picks])


FIXED = """
import hashlib
from tests.property import worlds
from tests.property.test_properties import outcome
digest = hashlib.sha256()
for system, gpu in (("ubuntu24.04", "H200"), ("rhel9.4", "Tesla P100-PCIE-16GB"), ("debian12", "GeForce RTX 5090")):
    for texts in (("cuda", "cudnn", "tensorrt"), ("cuda>=13", "driver==535.*"), ("ffmpeg", "triton"), ("cudnn==9.*", "cuda==12.*")):
        digest.update(outcome(worlds.facts(), worlds.described(system, (gpu,), None), worlds.asking(texts)))
print(digest.hexdigest())
"""


def test_no_answer_depends_on_the_order_of_sets() -> None:
    root = Path(__file__).parents[2]
    path = os.pathsep.join((str(root / "src"), str(root)))
    printed = {
        subprocess.run(
            [sys.executable, "-c", FIXED],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path, "LC_ALL": language, "TZ": zone},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, language, zone in (("1", "C", "UTC"), ("4711", "C.UTF-8", "Asia/Tokyo"))
    }
    assert len(printed) == 1
    assert len(next(iter(printed)).strip()) == len(hashlib.sha256().hexdigest())
