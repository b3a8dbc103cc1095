"""The driver's libraries from Debian's own archive, brought by the program with real apt, and taken back."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.by_hand import draft
from tests.install.world import GET, make_plan
from tests.integration.field import Ask
from tests.integration.field import make_plan as make_distro_plan
from tests.integration.managers import installed
from tests.integration.roots import Root
from tests.integration.test_bundles import gpustack
from tests.integration.test_debian_archive import debian

from gpustack import resources
from gpustack.model.plan import Plan
from gpustack.plan.document import dump

__all__ = ["debian"]

SMALL = ("nvidia-smi", "libcuda1", "libnvidia-encode1", "libnvcuvid1", "sudo")
"""The last one comes with a whole driver, and goes again only when it is told twice."""


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

    def demand() -> None:
        assert set(SMALL) <= installed(root, "apt").keys()
        assert root.run(["nvidia-smi", "--help"]).returncode == 0

    comes_and_goes(root, plan, tmp_path, demand)


@pytest.mark.slow
def test_the_whole_driver_and_toolkit_come_and_go(debian: Callable[[str], Root], tmp_path: Path) -> None:
    """The plan as the program makes it: 4 GB of packages of Debian, kernel modules built by dkms, nvcc tried."""
    root = debian("debian12")
    root.write("/etc/os-release", 'ID=debian\nVERSION_ID="12"\n')
    plan = make_distro_plan(Ask("debian12", ("driver", "cuda"), ("--gpu", "L40S", "--method", "distro")))

    def demand() -> None:
        assert {"nvidia-driver", "nvidia-cuda-toolkit"} <= installed(root, "apt").keys()
        root.write("/root/one.cu", "__global__ void one() {}\nint main() { one<<<1, 1>>>(); }\n")
        root.must("nvcc", "-o", "/root/one", "/root/one.cu")
        root.must("rm", "/root/one", "/root/one.cu")

    comes_and_goes(root, plan, tmp_path, demand)


def comes_and_goes(root: Root, plan: Plan, folder: Path, demand: Callable[[], None]) -> None:
    before, settings = installed(root, "apt"), root.settings()
    path = folder / "plan.json"
    path.write_text(dump(plan))
    environment = {
        **os.environ,
        "PYTHONPATH": str(resources.folder("matrices").parent / "src"),
        "GPUSTACK_CACHE": str(folder / "cache"),
    }
    words = ("--root", root.path, "--yes")
    done = gpustack("install", path, *words, environment=environment, timeout=3600)
    assert done.returncode == 0, done.stderr
    demand()
    assert "nothing to do" in gpustack("install", path, *words, environment=environment).stderr
    back = gpustack("install", "--rollback", *words, environment=environment, timeout=1800)
    assert back.returncode == 0, back.stderr
    assert installed(root, "apt") == before
    now = root.settings()
    assert {name for name in {*now, *settings} if now.get(name) != settings.get(name)} <= {"etc/ld.so.cache"}
