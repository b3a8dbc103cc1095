"""Real apt, dnf and zypper in throw-away roots, fed by repositories on loopback that stand in for the vendor's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.integration.field import HOSTS, Ask, Scene, Workshop
from tests.integration.keys import make_certificate, make_signing_keys
from tests.integration.roots import Root, base_tree, own_release
from tests.integration.server import served

PROGRAMS = {
    "chroot": "coreutils",
    "createrepo_c": "createrepo-c",
    "debootstrap": "debootstrap",
    "dpkg-deb": "dpkg",
    "gpg": "gnupg",
    "modifyrepo_c": "createrepo-c",
    "openssl": "openssl",
    "rpmbuild": "rpm",
    "rpmsign": "rpm",
}
"""What the tests run outside the roots, and the Debian packages that bring it."""


@pytest.fixture(scope="session")
def programs() -> None:
    """Fail, and name the package, where a program is missing."""
    if os.geteuid() != 0:
        pytest.skip("needs root: package managers write as root, and only root can enter a tree by chroot")
    missing = sorted({package for program, package in PROGRAMS.items() if not shutil.which(program)})
    assert not missing, f"please install the Debian packages: {' '.join(missing)}"


@pytest.fixture(scope="session")
def tree(programs: None) -> Path:  # noqa: ARG001
    return base_tree(own_release())


@pytest.fixture(scope="session")
def workshop(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    folder = tmp_path_factory.mktemp("keys")
    keys = make_signing_keys(folder / "gnupg")
    yield Workshop(keys, make_certificate(folder / "tls", HOSTS), tree)
    keys.stop()


@pytest.fixture
def scene(workshop: Workshop, tmp_path: Path) -> Callable[..., Scene]:
    """A maker of hosts in the field."""

    def make(ask: Ask, **more: Any) -> Scene:
        return Scene(workshop, ask, tmp_path, **more)

    return make


@pytest.fixture
def enter(workshop: Workshop) -> Iterator[Callable[[Scene], Root]]:
    """A maker of roots: the scene's hosts are served until the test ends."""
    with ExitStack() as stack:

        def make(scene: Scene, name: str = "root") -> Root:
            address = stack.enter_context(served(scene.www, workshop.certificate))
            root = scene.root(address, name)
            stack.callback(shutil.rmtree, root.path)
            return root

        yield make
