"""TensorRT's packages all come in the asked build, though newer releases and builds for another CUDA lie beside it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tests.integration.field import Ask, Scene, run_steps
from tests.integration.managers import installed
from tests.integration.roots import Root
from tests.tiers import tiers

ASKED = {
    "apt": (
        Ask("ubuntu24.04", ("cuda==12.*", "tensorrt==10.15.1.29")),
        "10.15.1.29-1+cuda12.9",
        "10.15.1.29-1+cuda13.1",
    ),
    "dnf": (Ask("rhel9.4", ("cuda==12.*", "tensorrt==10.16.*")), "10.16.1.11-1.cuda12.9", "10.16.1.11-1.cuda13.2"),
}


@pytest.mark.parametrize(("ask", "build", "other"), tiers(ASKED, "apt"))
def test_the_asked_build_comes(
    ask: Ask, build: str, other: str, scene: Callable[..., Scene], enter: Callable[[Scene], Root]
) -> None:
    host = scene(ask)
    there = [package for packages in host.packages.values() for package in packages]
    names = {package.name for package in there if package.version == build}
    assert {package.version for package in there if package.name == "libnvinfer-bin"} > {build, other}
    root = enter(host)
    run_steps(root, host.plan)
    found = {
        name: version
        for name, version in installed(root, host.system.family).items()
        if "nvinfer" in name or "nvonnx" in name
    }
    assert set(found.values()) == {build}
    assert found.keys() <= names
    assert "libnvinfer-bin" in found


@pytest.mark.slow
def test_without_hold_and_pins_the_newest_build_for_another_cuda_comes(
    scene: Callable[..., Scene], enter: Callable[[Scene], Root]
) -> None:
    """The trap that the plan goes around."""
    ask, build, _ = ASKED["apt"]
    host = scene(ask)
    root = enter(host)
    run_steps(root, host.plan)
    root.must(
        "apt-mark", "unhold", *sorted(name for name in installed(root, "apt") if "nvinfer" in name or "nvonnx" in name)
    )
    done = root.run(["apt-get", "--simulate", "install", "libnvinfer-bin"])
    assert re.search(rf"^Inst libnvinfer-bin \[{re.escape(build)}\] \(\S+\+cuda13", done.stdout, re.MULTILINE), (
        done.stdout
    )
