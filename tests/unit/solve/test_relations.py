"""Every component is crossed with every other one, and with everything that a host can be: nothing is left unsaid."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations

import pytest

from gpustack.detect.describe import describe
from gpustack.detect.properties import Properties
from gpustack.matrix.index import load_matrix
from gpustack.model.facts import COMPONENTS, PROPERTIES
from gpustack.model.request import Request
from gpustack.model.resolution import Verdict
from gpustack.solve.applies import SUBJECT as APPLIES
from gpustack.solve.applies import Applies, Unshown
from gpustack.solve.check import check
from gpustack.solve.hostview import STATES
from gpustack.solve.relations import SUBJECT, Relation
from gpustack.solve.requirements import parse_requirement
from gpustack.solve.rulebook import BUILT_FOR_BOARDS, rule_book
from gpustack.solve.unknown import COVERED_PAIRS
from gpustack.versions import is_within

MATRIX = load_matrix()
ROWS = MATRIX.rows(SUBJECT, SUBJECT, Relation)
PLACES = ("arch", "environment")
"""Aspects that `applies` has rows about, for each component."""
ASPECTS = (*PROPERTIES, *STATES)
LINUX = tuple(name for name in PROPERTIES if name not in {"msvc", "l4t"})


@cache
def places(component: str) -> tuple[Applies, ...]:
    return tuple(row for row in MATRIX.rows(APPLIES, "applies", Applies) if row.component == component)


@cache
def releases(component: str) -> tuple[str, ...]:
    """The judged releases that exist on some platform: of the others everything is unknown."""
    return tuple(
        row.version
        for row in MATRIX.releases(component)
        if row.is_judged and any(not one.versions or is_within(row.version, one.versions) for one in places(component))
    )


def declared(component: str, version: str, other: str) -> bool:
    return any(
        component in row.components and other in row.aspects and (not row.versions or is_within(version, row.versions))
        for row in ROWS
    )


def ruled(component: str, version: str, other: str) -> bool:
    return other in rule_book(MATRIX).applying(component, version)


def shown(component: str, version: str, other: str) -> bool:
    return any(
        component in row.components and row.property == other and (not row.versions or is_within(version, row.versions))
        for row in MATRIX.rows(APPLIES, "unshown", Unshown)
    )


def platform_of(aspect: str) -> str:
    return {"msvc": "windows", "l4t": "jetson"}.get(aspect, "")


def silent(component: str, aspect: str) -> Iterator[str]:
    """The releases of which nothing says how they stand to an aspect of the host."""
    platform = platform_of(aspect)
    compiles = any(bound.is_of_compiling and aspect in bound.objects for bound in rule_book(MATRIX).of(component))
    if aspect == "l4t" and component in BUILT_FOR_BOARDS:
        return  # unknown on a Jetson, unless a rule names its Jetson Linux
    if platform and not any(platform in row.platforms for row in places(component)):
        return  # unknown there, whatever the aspect is
    for version in releases(component):
        known = ruled(component, version, aspect) or shown(component, version, aspect) or compiles
        if not known and not declared(component, version, aspect):
            yield version


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_component_says_how_it_stands_to_everything_that_a_host_can_be(component: str) -> None:
    gaps = {aspect: tuple(silent(component, aspect)) for aspect in ASPECTS}
    assert not {aspect: (found[-1], found[0], len(found)) for aspect, found in gaps.items() if found}


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("aspect", PLACES)
def test_every_component_has_rows_about_its_places(component: str, aspect: str) -> None:
    assert all(getattr(row, {"arch": "arch", "environment": "platforms"}[aspect]) for row in places(component))
    assert places(component)


def is_said(one: str, first: str, other: str, second: str) -> bool:
    pairs = ((one, first, other), (other, second, one))
    return any(ruled(*pair) or declared(*pair) for pair in pairs)


def test_every_pair_of_components_is_compared_or_said_not_to_be() -> None:
    gaps = []
    for one, other in combinations(COMPONENTS, 2):
        if (one, other) in COVERED_PAIRS or (other, one) in COVERED_PAIRS:
            continue  # unknown where no rule covers it
        mine, theirs = releases(one), releases(other)
        lone = [version for version in mine if not (ruled(one, version, other) or declared(one, version, other))]
        others = [version for version in theirs if not (ruled(other, version, one) or declared(other, version, one))]
        if lone and others:
            gaps.append(f"{one} {lone[-1]} to {lone[0]} with {other} {others[-1]} to {others[0]}")
    assert not gaps


def test_every_row_says_something_that_no_rule_says() -> None:
    """A row about a pair that rules compare, in every release, is a dead fact."""
    dead = [
        f"{row.id}: {component} with {aspect}"
        for row in ROWS
        for component in row.components
        for aspect in row.aspects
        if component != aspect and all(_is_compared(component, version, aspect) for version in releases(component))
    ]
    assert not dead


def _is_compared(component: str, version: str, aspect: str) -> bool:
    rules = rule_book(MATRIX).applying(component, version).get(aspect, ())
    return any(not bound.rule.when.environment and not bound.rule.when.method for bound in rules)


def ask(*words: str, gpu: str = "L4", **properties: str) -> Verdict:
    host = describe(MATRIX, os="ubuntu22.04", arch="x86_64", gpus=(gpu,), properties=Properties(**properties))  # type: ignore[arg-type]  # one of them each
    return check(MATRIX, host, Request(requirements=tuple(map(parse_requirement, words)), named=tuple(properties)))


def test_what_does_not_depend_on_a_named_property_is_said_with_the_reason() -> None:
    (one,) = ask("nccl==2.28.3", gcc="16.1").declared
    assert (one.between, one.stand) == (("nccl==2.28.3", "GCC 16.1"), "independent")
    assert "C interface" in one.reason
    assert one.sources


def test_what_is_judged_through_something_else_names_it() -> None:
    verdict = ask("cudnn==9.10.2.21", "dcgm==4.4.0")
    assert [(one.stand, one.through) for one in verdict.declared] == [("through", "driver")]


def test_what_nobody_states_of_a_named_property_is_said() -> None:
    verdict = ask("driver==580.95.05", gcc="16.1")
    assert verdict.verdict == "compatible"
    assert any(one.property == "gcc" and one.option == "--gcc" for one in verdict.not_judged)


@pytest.mark.parametrize(("version", "python"), [("8.6.1.6", "3.12"), ("9.3.0.1", "3.11"), ("10.3.0.26", "3.14")])
def test_a_named_python_without_bindings_is_refused(version: str, python: str) -> None:
    verdict = ask(f"tensorrt=={version}", python=python)
    assert verdict.verdict == "incompatible"
    assert f"Python {python}" in verdict.conflicts[0].reason


def test_a_toolkit_older_than_every_packaged_compiler_is_unknown_until_one_is_named() -> None:
    (one,) = ask("cuda==10.2.89", gpu="Tesla T4").unknown
    assert (one.needs, one.option) == ("gcc", "--gcc")
    assert "oldest that Ubuntu 22.04 LTS packages is GCC 9" in one.reason
    assert ask("cuda==10.2.89", gpu="Tesla T4", gcc="8").verdict == "compatible"
    assert ask("cuda==11.8.0").verdict == "compatible"


def test_a_c_library_older_than_any_that_was_shown_is_unknown() -> None:
    verdict = ask("cudnn==7.6.5.32", gpu="Tesla V100-PCIE-16GB", glibc="2.12")
    assert verdict.verdict == "unknown"
    assert {(one.needs, one.option) for one in verdict.unknown} == {("glibc", "--glibc")}
