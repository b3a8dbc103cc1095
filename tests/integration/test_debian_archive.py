"""Debian for real: plans of the method distro, resolved by apt against Debian's own archive."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.field import NOT_RUN, NOT_RUN_PHASES, Ask, make_plan, system_packages
from tests.integration.roots import Root, apt_settings, base_tree, copy_tree, mirror, own_release
from tests.tiers import tiers

from gpustack.model.plan import Plan

RELEASES = {"debian12": "bookworm", "debian13": "trixie"}
SET = ("driver", "cuda", "ffmpeg", "nv-codec-headers")


@pytest.fixture
def debian(programs: None, tmp_path: Path) -> Iterator[Callable[[str], Root]]:  # noqa: ARG001
    """A tree of a Debian release as its installer leaves it: main only, from the mirror of this machine."""
    if platform.freedesktop_os_release()["ID"] != "debian":
        pytest.skip("the package archive of this machine is not Debian's, and the tests know no other mirror")
    roots = []

    def make(system: str) -> Root:
        codename = RELEASES[system]
        tree = base_tree(codename) if codename == own_release() else base_tree(codename, ("ca-certificates",), ())
        root = copy_tree(tree, tmp_path / "root")
        roots.append(root)
        root.inside("/etc/apt/sources.list").unlink(missing_ok=True)
        for name in ("resolv.conf", "hosts"):
            root.inside(f"/etc/{name}").unlink(missing_ok=True)
            root.write(f"/etc/{name}", Path("/etc", name).read_text())
        root.write("/etc/apt/apt.conf.d/90machine", "\n".join(apt_settings("Acquire::http", "Acquire::Check")) + "\n")
        root.write(
            "/etc/apt/sources.list.d/debian.sources",
            f"Types: deb\nURIs: {mirror()}\nSuites: {codename}\nComponents: main\n"
            "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n",
        )
        return root

    yield make
    for root in roots:
        shutil.rmtree(root.path)


def simulated(root: Root, plan: Plan) -> set[str]:
    """Run the plan with every installation simulated; the packages that apt would install."""
    found = set()
    for step in plan.steps:
        if step.phase in NOT_RUN_PHASES:
            continue
        for file in step.files:
            root.write(file.path, file.content, int(file.mode, 8))
        for command in step.commands:
            words = list(command)
            if words[0] in NOT_RUN:
                continue
            if "apt-get" in words and "install" in words:
                words.insert(words.index("apt-get") + 1, "--simulate")
            told = root.must(*words)
            found |= {line.split()[1] for line in told.splitlines() if line.startswith("Inst ")}
    return found


@pytest.mark.parametrize("system", tiers({name: name for name in RELEASES}, "debian12"))
def test_driver_with_nvenc_and_toolkit_resolve(system: str, debian: Callable[[str], Root]) -> None:
    plan = make_plan(Ask(system, SET, ("--gpu", "L40S", "--method", "distro")))
    root = debian(system)
    found = simulated(root, plan)
    wanted = {
        "libcuda1",
        "libnvidia-encode1",
        "libnvcuvid1",
        "nvidia-smi",
        "nvidia-cuda-toolkit",
        "libffmpeg-nvenc-dev",
    }
    assert wanted <= found
    assert found & {"nvidia-kernel-dkms", "nvidia-open-kernel-dkms"}
    offered = root.must("apt-cache", "policy", "nvidia-cuda-toolkit", "libcuda1")
    for component in ("driver", "cuda"):
        assert plan.stack[component].version in offered


@pytest.mark.parametrize("system", tiers({name: name for name in RELEASES}, "debian12"))
def test_what_network_plans_take_from_debian_is_there(system: str, debian: Callable[[str], Root]) -> None:
    plan = make_plan(Ask(system, ("driver", "cuda", "cudnn")))
    names = sorted(name for name in system_packages(plan) if not name.startswith(("nvidia-", "libcudnn", "cuda-")))
    assert names
    root = debian(system)
    root.must("apt-get", "update")
    root.must("apt-get", "--simulate", "install", *names)
