"""apt, dnf and zypper do what plans say: the stack comes in its versions, stays there, and a second run changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.integration.after import host_after, planned_again
from tests.integration.field import NOT_RUN, Ask, Scene, run_steps, system_packages
from tests.integration.managers import installed, missing, moved_by_upgrade
from tests.integration.roots import Root
from tests.tiers import tiers

from gpustack.versions import version

WHOLE = ("driver", "cuda", "cudnn", "tensorrt", "container-toolkit")
TOOLKIT = ("driver", "cuda", "container-toolkit")
T4 = ("--gpu", "Tesla T4", "--method", "network")
ASKED = {
    "ubuntu20.04-cudnn-8.0.5": Ask("ubuntu20.04", ("driver", "cuda==11.1.*", "cudnn==8.0.5.*"), T4),
    "rhel8-cudnn-8.9.6": Ask("rhel8.10", ("driver", "cuda==12.2.*", "cudnn==8.9.6.*"), T4),
    "ubuntu24.04-newest": Ask("ubuntu24.04", WHOLE),
    "ubuntu22.04-cuda12": Ask("ubuntu22.04", ("driver==580.*", "cuda==12.*", "cudnn", "tensorrt==10.*")),
    "debian12-newest": Ask("debian12", WHOLE),
    "rhel9-newest": Ask("rhel9.4", WHOLE),
    "rhel9-580": Ask("rhel9.4", ("driver==580.*", "cuda==12.*", "cudnn", "tensorrt==10.*")),
    "rocky9-newest": Ask("rocky9", TOOLKIT),
    "rhel10-newest": Ask("rhel10.0", WHOLE),
    "fedora44-newest": Ask("fedora44", TOOLKIT),
    "sles15-newest": Ask("sles15.6", TOOLKIT),
    "leap15-newest": Ask("opensuse-leap15.6", (*TOOLKIT, "cudnn")),
    "sles16-newest": Ask("sles16", TOOLKIT),
}
ALWAYS = ("ubuntu20.04-cudnn-8.0.5", "rhel8-cudnn-8.9.6", "ubuntu24.04-newest", "leap15-newest")
"""Each package manager and each way to trust a repository; debian12 and rhel9 are installed by test_installs.py."""


@pytest.mark.parametrize("ask", tiers(ASKED, *ALWAYS))
def test_the_plan_brings_its_stack_and_keeps_it(
    ask: Ask, scene: Callable[..., Scene], enter: Callable[[Scene], Root]
) -> None:
    host = scene(ask)
    root = enter(host)
    family = host.system.family
    before = installed(root, family)
    left_out = run_steps(root, host.plan)
    assert set(left_out) <= NOT_RUN.keys()
    there = installed(root, family)
    assert not missing(host.plan, there)
    assert not newer_than_planned(host, before, there)
    assert not moved_by_upgrade(root, family)
    settings = root.settings()
    run_steps(root, host.plan)
    assert installed(root, family) == there
    assert root.settings() == settings
    again = planned_again(host_after(root, host), host)
    assert {name: entry.state for name, entry in again.stack.items()} == dict.fromkeys(host.plan.stack, "keep")
    assert [step.title for step in again.steps] == []


def newer_than_planned(host: Scene, before: dict[str, str], there: dict[str, str]) -> dict[str, str]:
    """The packages of the vendor that came in another version than that of their component."""
    wrong = {}
    for folder, packages in host.packages.items():
        components = [name for name, (_, place) in host.folders.items() if place == folder]
        # What is named without a version, such as the package that pins the branch, comes in the newest one.
        known = {package.name for package in packages} - system_packages(host.plan)
        for name in sorted((there.keys() - before.keys()) & known):
            upstream = there[name].partition("-")[0]
            if not any(version(upstream) == version(host.versions()[one]) for one in components):
                wrong[name] = there[name]
    return wrong
