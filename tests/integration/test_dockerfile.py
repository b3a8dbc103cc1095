"""The Dockerfile for real: buildah builds it on an image made of a tree, with package managers that work in it."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.integration.field import ARCHIVE, HOSTS, Ask, Scene
from tests.integration.managers import installed, missing
from tests.integration.roots import Root

from gpustack.render.api import render
from gpustack.render.image import base_image

STACK = ("driver", "cuda", "cudnn", "container-toolkit")
ASKED = {"debian12": Ask("debian12", STACK), "rhel9": Ask("rhel9.4", STACK)}
LATER = {"rhel9"}
SLOW = pytest.mark.slow
"""Each build copies a whole tree several times: one family runs with all tests, the other in the slow tier."""

HOST_ONLY = (
    "nvidia-open",
    "cuda-drivers",
    "nvidia-driver",
    "nvidia-container-toolkit",
    "linux-headers",
    "kernel-devel",
)


@dataclass(frozen=True)
class Builder:
    """buildah with a store of its own, in which podman builds too; it needs no daemon, no registry and no user namespace."""

    store: Path
    running: Path

    def __call__(self, *words: str, program: str = "buildah") -> str:
        where = ["--root", str(self.store / "root"), "--runroot", str(self.running), "--storage-driver", "vfs"]
        done = subprocess.run(
            [program, *where, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout[-5000:]
        return done.stdout

    def import_tree(self, tree: Path, name: str) -> None:
        container = self("from", "scratch").split()[-1]
        self("add", "--quiet", container, f"{tree}/", "/")
        self("commit", "--quiet", "--rm", container, name)

    def build(self, program: str, dockerfile: Path, tag: str, address: str) -> str:
        hosts = [word for host in HOSTS for word in ("--add-host", f"{host}:{address}")]
        options = ["--pull=never", "--isolation", "chroot", "--network", "host", *hosts]
        place = ["--tag", tag, "--file", str(dockerfile), str(dockerfile.parent)]
        return self("build", *options, *place, program=program)

    def mounted(self, image: str) -> Path:
        return Path(self("mount", self("from", "--pull-never", image).split()[-1]).split()[-1])


@pytest.fixture
def buildah(tmp_path: Path) -> Iterator[Builder]:
    assert shutil.which("buildah"), "please install the Debian package buildah"
    # podman takes paths of 50 characters at most for what it keeps while it runs.
    with tempfile.TemporaryDirectory(prefix="run") as run:
        builder = Builder(tmp_path / "store", Path(run))
        yield builder
        builder("rm", "--all")
    shutil.rmtree(builder.store)


BUILDS = [pytest.param("buildah", ask, id=name, marks=SLOW if name in LATER else ()) for name, ask in ASKED.items()]
BUILDS.append(pytest.param("podman", ASKED["debian12"], id="podman", marks=SLOW))


@pytest.mark.parametrize(("program", "ask"), BUILDS)
def test_it_builds_into_an_image_with_its_stack_and_nothing_else(
    program: str, ask: Ask, scene: Callable[..., Scene], enter: Callable[..., Root], buildah: Builder, tmp_path: Path
) -> None:
    host = scene(ask)
    family = host.system.family
    tree = enter(host)
    before = installed(tree, family)
    address = next(line for line in tree.inside("/etc/hosts").read_text().splitlines() if ARCHIVE in line).split()[0]
    buildah.import_tree(tree.path, base_image(host.plan))
    folder = tmp_path / "context"
    folder.mkdir()
    (folder / "Dockerfile").write_text(render(host.plan, "dockerfile"))
    assert shutil.which(program), f"please install the Debian package {program}"
    buildah.build(program, folder / "Dockerfile", "localhost/stack", address)

    told = json.loads(buildah("inspect", "--type", "image", "localhost/stack"))["OCIv1"]["config"]
    assert told["Labels"]["gpustack.plan"] == host.plan.digest
    assert {told["Labels"][f"gpustack.{name}"] for name in ("cuda", "cudnn")} == {
        host.plan.stack[name].version for name in ("cuda", "cudnn")
    }
    assert "gpustack.driver" not in told["Labels"]
    environment = dict(line.split("=", 1) for line in told["Env"])
    assert environment["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
    assert environment["PATH"].startswith("/usr/local/cuda-")

    image = Root(buildah.mounted("localhost/stack"))
    there = installed(image, family)
    new = there.keys() - before.keys()
    kept = {name for name, _ in missing(host.plan, there).items()}
    # What the plan pins and the image has not is the host's own: its driver and its container engine.
    assert all(name.startswith(HOST_ONLY) or "nvidia" in name for name in kept)
    assert any(name.startswith("cuda-toolkit") for name in new)
    assert any("cudnn" in name for name in new)
    assert not [name for name in new if name.startswith(HOST_ONLY)]
    leftovers = {"apt": "var/lib/apt/lists", "dnf": "var/cache/dnf"}[family]
    assert not [path for path in (image.path / leftovers).rglob("*") if path.is_file()]
    assert not (image.path / "var/cache/gpustack").exists()
