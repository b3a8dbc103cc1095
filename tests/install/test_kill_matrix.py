"""SIGKILL at random instants of installations, resumptions, rollbacks and repeated rollbacks, for each package manager."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.install.kill_matrix import MANAGERS, Bench, make_bench, matrix, table
from tests.integration.keys import SigningKeys
from tests.tiers import tiers

SEED = 20261122
ALWAYS = "zypper"
"""The shortest; apt and dnf are killed in every step by test_kills.py and test_kills_rpm.py."""


@pytest.fixture(scope="module")
def bench(
    request: pytest.FixtureRequest, keys: SigningKeys, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    with make_bench(request.param, keys, tmp_path_factory.mktemp("bench") / request.param) as made:
        yield made


def all_new_or_all_old(bench: Bench, instants: int, seed: int = SEED) -> None:
    told: list[str] = []
    found = matrix(bench, instants, seed, told.append)
    print(table(found))  # noqa: T201 (shown with -rP, and where it fails)
    assert not told, "\n".join(told)


@pytest.mark.parametrize("bench", tiers({name: name for name in MANAGERS}, ALWAYS), indirect=True)
def test_at_some_instants(bench: Bench) -> None:
    all_new_or_all_old(bench, 1)


@pytest.mark.slow
@pytest.mark.parametrize("bench", MANAGERS, indirect=True)
def test_at_many_instants(bench: Bench) -> None:
    """More than 200 in all."""
    all_new_or_all_old(bench, 17, SEED + 1)
