"""What must not be installed is refused by the real tools: wrong pins, retired keys, no signature, another key."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.integration.field import NOT_RUN_PHASES, Ask, Scene, run_step
from tests.integration.managers import installed
from tests.integration.roots import Root
from tests.tiers import tiers

from gpustack.model.steps import Step

ASKED = {
    "apt-keyring-package": Ask("ubuntu24.04", ("cuda",)),
    "apt-key-file": Ask("ubuntu24.04", ("container-toolkit",)),
    "dnf-fingerprint": Ask("rhel9.4", ("cuda",)),
    "dnf-sum": Ask("rhel10.0", ("cuda",)),
    "dnf-signed-metadata": Ask("rhel9.4", ("container-toolkit",)),
    "zypper": Ask("opensuse-leap15.6", ("cuda",)),
    "zypper-signed-metadata": Ask("opensuse-leap15.6", ("container-toolkit",)),
}
REFUSALS = {
    "apt": ("is not signed", "no longer signed", "public key is not available", "NO_PUBKEY"),
    "dnf": (
        "not signed",
        "GPG check FAILED",
        "Public key for",
        "GPG signature is not available",
        "repomd.xml GPG signature verification error",
    ),
    "zypper": ("Signature verification", "not signed", "unsigned", "unknown key", "failed"),
}
SIGNED = {name: ask for name, ask in ASKED.items() if name != "dnf-sum"}


def stopped_at(root: Root, host: Scene) -> tuple[Step, str] | None:
    """The step at which an installer stops, and what the tool said; None where all went well."""
    for step in host.plan.steps:
        if step.phase in NOT_RUN_PHASES:
            continue
        try:
            run_step(root, step)
        except AssertionError as exc:
            return step, str(exc)
    return None


def demand_refused(root: Root, host: Scene) -> None:
    family = host.system.family
    stopped = stopped_at(root, host)
    assert stopped is not None, "nothing stopped the plan"
    step, said = stopped
    assert step.kind in {"refresh-index", "install-packages"}
    assert any(words in said for words in REFUSALS[family]), said
    vendor = {package.name for packages in host.packages.values() for package in packages}
    assert not vendor & installed(root, family).keys()


@pytest.mark.parametrize("ask", tiers(SIGNED, *SIGNED))
def test_what_the_retired_key_signed_is_refused(
    ask: Ask, scene: Callable[..., Scene], enter: Callable[[Scene], Root]
) -> None:
    host = scene(ask, signer="retired")
    demand_refused(enter(host), host)


@pytest.mark.parametrize("ask", tiers(SIGNED, "apt-key-file", "dnf-fingerprint", "zypper-signed-metadata"))
def test_what_nobody_signed_is_refused(ask: Ask, scene: Callable[..., Scene], enter: Callable[[Scene], Root]) -> None:
    host = scene(ask, signer="nobody")
    demand_refused(enter(host), host)


@pytest.mark.parametrize("name", ["apt-keyring-package", "apt-key-file", "dnf-fingerprint", "dnf-sum", "zypper"])
def test_a_file_with_another_key_than_the_expected_one_is_refused(
    name: str, scene: Callable[..., Scene], enter: Callable[[Scene], Root]
) -> None:
    host = scene(ASKED[name])
    keys = host.workshop.keys
    for file in [*host.www.rglob("*.pub"), *host.www.rglob("gpgkey"), *host.www.rglob("cuda-keyring*.deb")]:
        file.write_bytes(keys.public(keys.retired))
    root = enter(host)
    stopped = stopped_at(root, host)
    assert stopped is not None
    step, said = stopped
    assert step.phase == "repositories"
    assert step.kind in {"run", "download"}, said
    assert not list(root.inside("/etc/apt/sources.list.d").glob("cuda-*"))
    assert not list(root.inside("/etc/pki/rpm-gpg").glob("*NVIDIA*"))


@pytest.mark.parametrize("system", ["ubuntu24.04", "rhel9.4", "opensuse-leap15.6"])
def test_a_version_that_is_not_there_stops_the_plan(
    system: str, scene: Callable[..., Scene], enter: Callable[[Scene], Root]
) -> None:
    gone = lambda package, plan: package.version.startswith(plan.stack["cudnn"].version)  # noqa: E731
    host = scene(Ask(system, ("cudnn",)), gone=gone)
    version = host.versions()["cudnn"]
    stopped = stopped_at(enter(host), host)
    assert stopped is not None
    step, said = stopped
    assert step.title == f"install cudnn {version}"
    words = {
        "apt": f"Version '{version}-1' for",
        "dnf": "No match for argument: libcudnn9-cuda-",
        "zypper": "not found",
    }
    assert words[host.system.family] in said, said
