"""One world for all tests of installations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.install.world import World, make_world
from tests.integration.keys import make_signing_keys
from tests.integration.roots import base_tree, own_release


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    if os.geteuid() != 0:
        pytest.skip("needs root: package managers write as root, and only root can enter a tree by chroot")
    folder = tmp_path_factory.mktemp("world")
    keys = make_signing_keys(folder / "gnupg")
    with make_world(base_tree(own_release()), keys, folder) as made:
        yield made
    keys.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
