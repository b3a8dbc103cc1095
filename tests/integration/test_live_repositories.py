"""What a site's repositories offer, as the real apt, dnf and zypper have read, verified and kept their indexes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.integration.field import Ask, Scene, run_step
from tests.integration.roots import Root

from gpustack.install.root import InstallRoot
from gpustack.install.supply.offered import Offer, offers
from gpustack.install.supply.site import site_of
from gpustack.matrix.index import load_matrix

ASKS = {
    "apt": Ask("ubuntu22.04", ("cuda==12.6.*",)),
    "dnf": Ask("rhel9.4", ("cuda==12.6.*",)),
    "zypper": Ask("sles15.6", ("cuda==12.6.*",)),
}


@pytest.mark.slow
@pytest.mark.parametrize("family", ASKS)
def test_what_the_manager_has_read_is_what_the_site_offers(
    scene: Callable[[Ask], Scene],
    enter: Callable[[Scene], Root],
    family: str,
) -> None:
    """Every package of the vendor's folder is offered, and the newest releases are known; nothing is left unread."""
    field = scene(ASKS[family])
    root = enter(field)
    for step in field.plan.steps:
        if step.phase in {"prerequisites", "repositories"}:
            run_step(root, step)
    offered = [one for one in offers(InstallRoot(root.path), "x86_64") if isinstance(one, Offer)]
    (vendors,) = (one.versions for one in offered if "/compute/cuda/repos/" in one.address)
    (folder,) = {folder for _, folder in field.folders.values() if "compute/cuda/repos" in str(folder)}
    for package in field.packages[folder]:
        assert package.version.rpartition(":")[2] in {one.rpartition(":")[2] for one in vendors[package.name]}
    site = site_of(load_matrix(), field.plan.host, offered)
    assert {"cuda", "driver"} <= site.newest.keys()
    assert site.unread == ()
