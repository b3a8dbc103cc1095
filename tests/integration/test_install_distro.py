"""The driver's libraries from Debian's own archive, brought by the program with real apt, and taken back."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.install.world import GET, make_plan
from tests.integration.managers import installed
from tests.integration.roots import Root
from tests.integration.test_bundles import gpustack
from tests.integration.test_debian_archive import debian

from gpustack import resources
from gpustack.plan.document import dump
from gpustack.plan.draft import draft

__all__ = ["debian"]

SMALL = ("nvidia-smi", "libcuda1", "libnvidia-encode1", "libnvcuvid1")


@pytest.mark.parametrize("system", ["debian12", pytest.param("debian13", marks=pytest.mark.slow)])
def test_libraries_of_the_driver_come_and_go(system: str, debian: Callable[[str], Root], tmp_path: Path) -> None:
    root = debian(system)
    step = partial(draft, component="driver", why="the test asks for it", phase="driver")
    sources = "/etc/apt/sources.list.d/debian.sources"
    plan = make_plan(
        [
            step("sources", kind="run", title="more components", commands=(("sed", "-i", "-e", "s/^Components: main$/Components: main contrib non-free/", "--", sources),)),
            step("index", after=["sources"], kind="refresh-index", title="read the index", commands=((*GET, "update"),)),
            step("install", after=["index"], kind="install-packages", title="install", commands=((*GET, "install", "-y", "--no-install-recommends", *SMALL),), packages=SMALL),
        ]
    )  # fmt: skip
    before, settings = installed(root, "apt"), root.settings()
    path = tmp_path / "plan.json"
    path.write_text(dump(plan))
    environment = {
        **os.environ,
        "PYTHONPATH": str(resources.folder("matrices").parent / "src"),
        "GPUSTACK_CACHE": str(tmp_path / "cache"),
    }
    words = ("--root", root.path, "--yes")
    done = gpustack("install", path, *words, environment=environment)
    assert done.returncode == 0, done.stderr
    there = installed(root, "apt")
    assert set(SMALL) <= there.keys()
    assert root.run(["nvidia-smi", "--help"]).returncode == 0
    assert "nothing to do" in gpustack("install", path, *words, environment=environment).stderr
    back = gpustack("install", "--rollback", *words, environment=environment)
    assert back.returncode == 0, back.stderr
    assert installed(root, "apt") == before
    now = root.settings()
    assert {name for name in {*now, *settings} if now.get(name) != settings.get(name)} <= {"etc/ld.so.cache"}
