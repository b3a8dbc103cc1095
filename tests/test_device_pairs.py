"""Every GPU with every released driver for Linux: nothing is compatible in silence where NVIDIA's lists say otherwise."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from gpustack import resources
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.places import GpuProduct
from gpustack.model.request import Request
from gpustack.model.resolution import Verdict
from gpustack.solve.check import check
from gpustack.solve.requirements import parse_requirement
from gpustack.versions import version

sys.path.insert(0, str(resources.folder("matrices").parent / "ci"))

import device_pairs as program

pytestmark = pytest.mark.gate

Pairs = list[tuple[GpuProduct, str, str]]

LATE = {"hopper", "blackwell"}
"""Architectures that came after the open modules, whose table has named their GPUs from the first."""


@pytest.fixture(scope="module")
def facts() -> Matrix:
    return load_matrix()


@pytest.fixture(scope="module")
def pairs(facts: Matrix) -> Pairs:
    return list(program.judged(facts))


def below_the_list(pairs: Pairs) -> Iterator[tuple[GpuProduct, str, str]]:
    """The pairs of a device and a driver that is older than the first one that lists it."""
    for product, driver, kind in pairs:
        if product.driver_listed and version(driver) < version(product.driver_listed):
            yield product, driver, kind


def test_no_hopper_or_blackwell_gpu_is_compatible_below_the_release_that_lists_it(pairs: Pairs) -> None:
    late = [(product, driver, kind) for product, driver, kind in below_the_list(pairs) if product.architecture in LATE]
    within = [pair for pair in late if pair[2] != "window"]
    assert len(within) > 1_000
    assert [pair for pair in within if pair[2] != "unlisted"] == []


def test_every_pair_has_its_evidence(facts: Matrix, pairs: Pairs) -> None:
    released = [row for row in facts.releases("driver") if "linux" in row.os and row.status == "released"]
    assert len(pairs) == len(facts.products) * len(released)
    assert {kind for _, _, kind in pairs} == set(program.MEANING)


def test_a_listed_gpu_is_never_judged_by_its_architecture_alone(pairs: Pairs) -> None:
    others = [pair for pair in below_the_list(pairs) if pair[0].architecture not in LATE]
    assert len(others) > 12_000
    assert [pair for pair in others if pair[2] == "no-list"] == []


def test_check_answers_by_that_evidence(facts: Matrix, pairs: Pairs) -> None:
    first = {(product.architecture, kind): (product, driver, kind) for product, driver, kind in reversed(pairs)}
    for product, driver, kind in [*first.values(), *pairs[::1_499]]:
        verdict = asked(facts, product, driver)
        wanted = {"window": "incompatible", "unlisted": "unknown", "no-capability": "unknown"}.get(kind, "compatible")
        if wanted == "compatible":  # an old driver has no kernel on the system of the question, whatever the GPU
            assert not verdict.conflicts, (product.name, driver, kind, verdict)
            assert all(one.needs == "kernel" for one in verdict.unknown), (product.name, driver, kind, verdict)
        else:
            assert verdict.verdict == wanted, (product.name, driver, kind, verdict)
        if kind == "open-list-only":
            assert any("which proves nothing" in text for text in verdict.warnings)


def asked(facts: Matrix, product: GpuProduct, driver: str) -> Verdict:
    host = program.question_of(facts, product).host
    return check(facts, host, Request(requirements=(parse_requirement(f"driver=={driver}"),)))
