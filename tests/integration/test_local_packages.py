"""Downloaded packages for real: single .deb files, and packages that hold a whole repository, by the plan's commands."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.integration.after import host_after, planned_again
from tests.integration.catalogue import Package
from tests.integration.debs import build_deb
from tests.integration.field import Ask, Scene, pins, run_steps
from tests.integration.managers import installed, missing
from tests.integration.roots import Root
from tests.integration.vendor_files import repository_deb, repository_rpm
from tests.tiers import tiers

from gpustack.model.steps import Artifact

SINGLE = Ask("ubuntu20.04", ("cuda==11.1.*", "cudnn==8.0.5.*"), ("--gpu", "Tesla T4", "--method", "cudnn=local"))
HOLDING = {
    "apt": Ask("ubuntu22.04", ("cuda==12.*", "cudnn==9.2.*"), ("--gpu", "L40S", "--method", "cudnn=local")),
    "dnf": Ask("rhel9.4", ("cuda==12.*", "cudnn==9.8.*"), ("--gpu", "L40S", "--method", "cudnn=local")),
}
FAMILIES = {family: family for family in HOLDING}
"""In every run each is asked one thing here; apt also installs from such a package in test_methods_installed.py."""


def place_of(host: Scene, artifact: Artifact) -> Path:
    """Where the vendor's file lies among those that are served."""
    address = urlsplit(artifact.url)
    place = host.www / str(address.hostname) / address.path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def serve_single_files(host: Scene) -> None:
    """The libraries, and headers and samples that want them in the very build."""
    for artifact in files_of(host):
        place = place_of(host, artifact)
        name, version, _ = place.name.split("_")
        depends = () if name == "libcudnn8" else (("libcudnn8", "=", version),)
        made = build_deb(Package(name, version, depends), host.folder)
        shutil.move(made, place)


def serve_holding_file(host: Scene, signer: str) -> None:
    """A package with a repository under /var, its key, and the entry that makes the manager read it."""
    (artifact,) = files_of(host)
    place = place_of(host, artifact)
    name = place.name.partition("_" if host.is_apt else "-1.0-1")[0]
    inside = [Package(name, version.removesuffix("*")) for name, version in pins(host.plan) if "cudnn" in name]
    make = repository_deb if host.is_apt else repository_rpm
    shutil.move(make(host.folder, name, inside, host.workshop.keys, signer), place)


def files_of(host: Scene) -> list[Artifact]:
    return [one for step in host.plan.steps if step.component == "cudnn" for one in step.artifacts]


def demand_there(root: Root, host: Scene) -> None:
    run_steps(root, host.plan)
    assert not missing(host.plan, installed(root, host.system.family))
    again = planned_again(host_after(root, host), host)
    assert [step.title for step in again.steps if step.phase != "verification"] == []


def test_single_packages_are_installed_in_the_order_that_they_need(
    scene: Callable[..., Scene], enter: Callable[[Scene], Root]
) -> None:
    host = scene(SINGLE)
    serve_single_files(host)
    root = enter(host)
    run_steps(root, host.plan)
    there = installed(root, "apt")
    names = ("libcudnn8", "libcudnn8-dev", "libcudnn8-samples")
    assert {there[name] for name in names} == {"8.0.5.39-1+cuda11.1"}


@pytest.mark.parametrize("family", tiers(FAMILIES, "dnf"))
def test_a_repository_in_a_package_is_read_and_installed_from(
    family: str, scene: Callable[..., Scene], enter: Callable[[Scene], Root]
) -> None:
    host = scene(HOLDING[family])
    serve_holding_file(host, host.workshop.keys.current)
    demand_there(enter(host), host)


@pytest.mark.parametrize("family", tiers(FAMILIES, "apt"))
def test_what_another_key_signed_is_refused(
    family: str, scene: Callable[..., Scene], enter: Callable[[Scene], Root]
) -> None:
    host = scene(HOLDING[family])
    serve_holding_file(host, host.workshop.keys.retired)
    root = enter(host)
    with pytest.raises(AssertionError, match=r"not signed|NO_PUBKEY|public key|GPG|Public key"):
        run_steps(root, host.plan)
    assert not [name for name in installed(root, family) if name.startswith("libcudnn")]
