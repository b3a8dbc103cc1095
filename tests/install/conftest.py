"""One world for all tests of installations."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.install.world import World, make_world
from tests.integration.keys import SigningKeys, make_signing_keys
from tests.integration.roots import base_tree, own_release


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SigningKeys]:
    made = make_signing_keys(tmp_path_factory.mktemp("keys") / "gnupg")
    yield made
    made.stop()


@pytest.fixture(scope="session")
def world(keys: SigningKeys, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    if os.geteuid() != 0:
        pytest.skip("needs root: package managers write as root, and only root can enter a tree by chroot")
    folder = tmp_path_factory.mktemp("world")
    with make_world(base_tree(own_release()), keys, folder) as made:
        yield made
