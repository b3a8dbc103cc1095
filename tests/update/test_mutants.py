"""No row of a mutated body is accepted, and none ends in a traceback: it is refused, or waits for a person."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from tests.update.mutants import MUTATIONS, mutant

from gpustack.model.facts import SEEN
from update.merge import Diff, merge
from update.record import Body, SourceError, load
from update.sources import source
from update.tables import Facts, declined
from update.witnesses import Witnesses

BODIES = Path(__file__).parent / "bodies"
ALONE = (
    "ffmpeg_pages",
    "installers",
    "instances",
    "nccl_makefiles",
    "pins",
    "quotes",
    "tensorrt_manifests",
    "csaf",
    "frameworks",
    "image_files",
    "image_tags",
    "ends",
    "manifest_sums",
    "pci_ids",
    "redist",
    "runfiles",
    "scoop",
    "tag_days",
    "tags",
    "toolkit_targets",
    "triton_branches",
    "wheels",
)
"""Sources that read each body for itself, or with a few; lists of GPUs and of drivers are read together."""


@cache
def facts() -> Facts:
    return Facts()


@cache
def bodies(name: str) -> tuple[Body, ...]:
    return load(BODIES / f"{name}.xz")


def with_mutant(name: str, seed: int) -> tuple[tuple[Body, ...], str]:
    """The bodies of one run with one of them mutated, and how."""
    chance = random.Random(seed)  # noqa: S311 (no secret)
    all_of_it = bodies(name)
    place = chance.randrange(len(all_of_it))
    made = mutant(seed, all_of_it[place].data)
    changed = all_of_it[place]._replace(data=made.data)
    if name in {"codec_headers", "driver_releases", "gpu_lists", "image_tags"}:
        return (*all_of_it[:place], changed, *all_of_it[place + 1 :]), made.kind
    if name == "csaf":
        pair = [one for one in all_of_it if one.address.startswith(changed.address.removesuffix(".sha256"))]
        return tuple(changed if one.address == changed.address else one for one in pair), made.kind
    beside = together(name, changed)
    return tuple(changed if one.address == changed.address else one for one in beside), made.kind


def together(name: str, body: Body) -> list[Body]:
    """The bodies without which one says nothing: the page of a digest, the parts of CUDA, the other image files."""
    project = body.address.rpartition("/")[0]
    if name == "wheels" and "/cuda-toolkit/" in body.address:
        return [body, *(one for one in bodies(name) if "-cu11/" in one.address and one.address.endswith("/"))]
    if name in {"frameworks", "wheels"}:
        return [one for one in bodies(name) if one.address.rpartition("/")[0] == project]
    if name == "image_files":
        return [one for one in bodies(name) if one.address.rpartition("/")[0].startswith(project.rpartition("/")[0])]
    return [body]


def outcome(name: str, seed: int) -> str:
    """What becomes of one mutant: refused, stopped, waiting, as it was, or the wrong rows that it would add."""
    mutated, kind = with_mutant(name, seed)
    try:
        diff = run(name, mutated)
    except SourceError:
        return "refused"
    wrong = [found for found in diff.changes if found.row.get("status") != SEEN]
    if wrong:
        return f"WRONG {name} {seed} ({kind}): {wrong[0]}"
    return "stopped" if diff.stops else "waiting" if diff.waiting else "as it was"


def run(name: str, read: tuple[Body, ...]) -> Diff:
    given = source(name).rows(read)
    witnesses = Witnesses(facts())
    witnesses.add(name, given)
    return merge(name, given, facts(), witnesses, declined())


def outcomes(name: str, seeds: range) -> Counter[str]:
    return Counter(outcome(name, seed) for seed in seeds)


@pytest.mark.parametrize("name", ALONE)
def test_no_row_of_a_mutant_is_accepted(name: str) -> None:
    found = outcomes(name, range(40))
    assert [text for text in found if text.startswith("WRONG")] == []
    assert found["refused"] + found["stopped"] > 0


@pytest.mark.parametrize("name", ["codec_headers", "driver_releases", "gpu_lists"])
def test_no_row_of_a_mutated_list_is_accepted(name: str) -> None:
    found = outcomes(name, range(20))
    assert [text for text in found if text.startswith("WRONG")] == []


@pytest.mark.parametrize("name", [*ALONE, "tensorrt_wheels"])
def test_a_number_of_thousands_of_digits_is_no_traceback(name: str) -> None:
    """Rare among all mutants, and Python refuses to read such a number."""
    kind = "a number of thousands of digits"
    seeds = [seed for seed in range(10_000) if mutant(seed, b"7").kind == kind][:40]
    assert [text for text in (outcome(name, seed) for seed in seeds) if text.startswith("WRONG")] == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("name", [*ALONE, "codec_headers", "driver_releases", "gpu_lists", "tensorrt_wheels"])
def test_ten_thousand_mutants(name: str, part: int) -> None:
    found = outcomes(name, range(1000 + part * 125, 1125 + part * 125))
    assert [text for text in found if text.startswith("WRONG")] == []


def test_every_kind_of_mutation_changes_a_body() -> None:
    data = bodies("redist")[0].data
    for name, mutation in MUTATIONS.items():
        assert any(mutation(random.Random(seed), data) != data for seed in range(5)), name  # noqa: S311 (no secret)
