"""Bundles from real apt, dnf and zypper: made beside the vendor's hosts, installed where there is no network at all."""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest
from tests.integration.field import HOSTS, Ask, Scene
from tests.integration.keys import Certificate, make_certificate
from tests.integration.managers import installed, missing
from tests.integration.roots import Root
from tests.tiers import tiers

from gpustack import resources
from gpustack.errors import GpustackError
from gpustack.install.lock import document as locks
from gpustack.install.supply.bundle import Bundle
from gpustack.plan.document import dump


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, *words: Any) -> None:  # type: ignore[override]
        """Say nothing."""


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("local") / "tls", ("localhost",))


@pytest.fixture
def mirror(local: Certificate, tmp_path: Path) -> Iterator[Callable[[Scene], dict[str, str]]]:
    """The environment in which the program finds the files of a scene on a mirror."""
    with ExitStack() as stack:

        def start(host: Scene) -> dict[str, str]:
            server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(host.www)))
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(local.chain, local.key)
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
            Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            address = f"https://localhost:{server.server_address[1]}"
            hosts = {*HOSTS, *(place.name for place in host.www.iterdir())}
            return {
                **os.environ,
                "PYTHONPATH": str(resources.folder("matrices").parent / "src"),
                "REQUESTS_CA_BUNDLE": str(local.authority),
                "GPUSTACK_CACHE": str(tmp_path / "cache"),
                "GPUSTACK_MIRRORS": " ".join(f"https://{name}/={address}/{name}/" for name in sorted(hosts)),
            }

        yield start


def gpustack(
    *words: object, environment: dict[str, str], front: tuple[str, ...] = (), timeout: float = 600
) -> subprocess.CompletedProcess[str]:
    command = [*front, sys.executable, "-m", "gpustack", *map(str, words)]
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=timeout)


@pytest.fixture
def fetch(mirror: Callable[[Scene], dict[str, str]], tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """``gpustack fetch`` of a scene's plan."""

    def run(host: Scene, root: Root, folder: Path) -> subprocess.CompletedProcess[str]:
        plan = tmp_path / "plan.json"
        plan.write_text(dump(host.plan))
        as_system(root, host)
        return gpustack("fetch", plan, "--to", folder, "--root", root.path, environment=mirror(host))

    return run


NO_NETWORK = ("unshare", "--net")
"""Not even loopback is there."""

ASKED = {
    "debian12": Ask("debian12", ("driver", "cuda", "cudnn")),
    "rhel9-driver": Ask("rhel9.4", ("driver",)),
    "rhel9": Ask("rhel9.4", ("driver", "cuda", "cudnn")),
    "sles15": Ask("sles15.6", ("driver", "cuda")),
}


@pytest.mark.parametrize("ask", tiers(ASKED, "debian12", "rhel9-driver"))
def test_a_bundle_brings_the_whole_stack_where_there_is_no_network(
    ask: Ask,
    scene: Callable[..., Scene],
    enter: Callable[..., Root],
    fetch: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    host = scene(ask)
    root = enter(host)
    as_system(root, host)
    before = root.settings()
    folder = tmp_path / "bundle"
    done = fetch(host, root, folder)
    assert done.returncode == 0, done.stderr
    assert root.settings() == before
    bundle = Bundle(folder)
    assert bundle.manifest.fingerprint in done.stdout
    assert all(package.sha256 and package.size for package in bundle.lock.packages)
    target = enter(host, "far-away")
    as_system(target, host)
    cut = {**os.environ, "PYTHONPATH": str(resources.folder("matrices").parent / "src")}
    words = ("install", "--bundle", folder, "--root", target.path, "--yes")
    done = gpustack(*words, environment=cut, front=NO_NETWORK)
    assert done.returncode == 0, done.stderr
    there = installed(target, host.system.family)
    assert not missing(host.plan, there)
    assert {package.name for package in bundle.lock.packages} <= there.keys()
    lock = locks.load(target.inside("/var/lib/gpustack/lock.json"))
    sums = {package.name: package.sha256 for package in bundle.lock.packages}
    assert {package.name: package.sha256 for package in lock.packages if package.name in sums} == sums


def as_system(root: Root, host: Scene) -> None:
    """Make a root say that it is the system of the plan."""
    told = host.plan.host.os
    if not host.is_apt:
        # What the tree is made of: a system with this database counts as one of apt.
        shutil.rmtree(root.inside("/var/lib/dpkg"), ignore_errors=True)
    root.write("/etc/os-release", f'ID={told.id}\nVERSION_ID="{told.version_id}"\nID_LIKE="{" ".join(told.like)}"\n')


def test_a_changed_bundle_is_refused(
    scene: Callable[..., Scene],
    enter: Callable[..., Root],
    fetch: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    host = scene(Ask("debian12", ("container-toolkit",)))
    folder = tmp_path / "bundle"
    assert fetch(host, enter(host), folder).returncode == 0
    package = next((folder / "deb").glob("*.deb"))
    package.write_bytes(b"other")
    with pytest.raises(GpustackError, match=f"(?s)files of the bundle are not those.*{package.name}"):
        Bundle(folder)
    manifest = folder / "manifest.json"
    changed = msgspec.json.decode(manifest.read_bytes())
    changed["left"] = ["nothing"]
    manifest.write_bytes(msgspec.json.encode(changed))
    with pytest.raises(GpustackError, match="the signature is not valid"):
        Bundle(folder)


LOCKED = {
    "debian12": Ask("debian12", ("container-toolkit",)),
    "rocky9": Ask("rocky9", ("container-toolkit",)),
    "leap15": Ask("opensuse-leap15.6", ("container-toolkit",)),
}


@pytest.mark.parametrize("ask", tiers(LOCKED, "debian12"))
def test_a_lock_brings_the_same_again_or_says_what_is_gone(
    ask: Ask,
    scene: Callable[..., Scene],
    enter: Callable[..., Root],
    mirror: Callable[[Scene], dict[str, str]],
    tmp_path: Path,
) -> None:
    host = scene(ask)
    family = host.system.family
    environment = mirror(host)
    plan, lock = tmp_path / "plan.json", tmp_path / "stack.lock.json"
    plan.write_text(dump(host.plan))
    first, second, third = (enter(host, name) for name in ("first", "second", "third"))
    for root in (first, second, third):
        as_system(root, host)
    done = gpustack("install", plan, "--root", first.path, "--yes", "--lock", lock, environment=environment)
    assert done.returncode == 0, done.stderr
    locked = {one.name: one for one in locks.load(lock).packages}
    assert locked["nvidia-container-toolkit"].sha256
    assert locked["nvidia-container-toolkit"].url.startswith("https://nvidia.github.io/")
    done = gpustack("status", "--root", first.path, environment=environment)
    assert done.returncode == 0, done.stdout
    done = gpustack("install", lock, "--root", second.path, "--yes", environment=environment)
    assert done.returncode == 0, done.stderr
    assert installed(second, family) == installed(first, family)
    gone = next(host.www.rglob("nvidia-container-toolkit-base[_-]*.[dr][ep][bm]"))
    gone.unlink()
    done = gpustack(
        "install",
        lock,
        "--root",
        third.path,
        "--yes",
        environment={**environment, "GPUSTACK_CACHE": str(tmp_path / "2")},
    )
    assert done.returncode == 1
    assert f"{gone.name}: the server answered 404" in done.stderr
    assert "nvidia-container-toolkit" not in installed(third, family)
    remove = ("dpkg", "--remove", "--force-all") if host.is_apt else ("rpm", "--erase", "--nodeps")
    first.must(*remove, "nvidia-container-toolkit-base")
    done = gpustack("status", "--root", first.path, "--format", "json", environment=environment)
    assert done.returncode == 6
    assert [one["what"] for one in json.loads(done.stdout)["drift"]] == ["nvidia-container-toolkit-base"]


def test_another_system_than_the_plan_is_for_is_refused(
    scene: Callable[..., Scene], enter: Callable[..., Root], mirror: Callable[[Scene], dict[str, str]], tmp_path: Path
) -> None:
    host = scene(Ask("debian12", ("container-toolkit",)))
    root = enter(host)
    root.write("/etc/os-release", 'ID=ubuntu\nVERSION_ID="24.04"\n')
    plan = tmp_path / "plan.json"
    plan.write_text(dump(host.plan))
    done = gpustack("fetch", plan, "--to", tmp_path / "b", "--root", root.path, environment=mirror(host))
    assert done.returncode == 2
    assert "the plan is for debian12 (x86_64), and packages would be chosen on ubuntu24.04" in done.stderr


def test_a_repository_that_cannot_be_trusted_makes_no_bundle(
    scene: Callable[..., Scene],
    enter: Callable[..., Root],
    fetch: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    host = scene(Ask("debian12", ("container-toolkit",)))
    root, folder = enter(host), tmp_path / "bundle"
    repository = next(host.www.glob("nvidia.github.io/**/InRelease")).parent
    keys = host.workshop.keys
    release, good = repository / "Release", {path: path.read_bytes() for path in repository.iterdir()}

    def changed_metadata() -> None:
        with (repository / "Packages").open("a") as index:
            index.write("\n")

    def expired_signature() -> None:
        text = release.read_bytes() + b"Valid-Until: Thu, 01 Jan 2026 00:00:00 UTC\n"
        lines = sorted(text.splitlines(), key=lambda line: line.startswith((b"SHA256", b" ")))
        (repository / "InRelease").write_bytes(keys.clear_sign(b"\n".join(lines) + b"\n", keys.current))

    def rotated_key() -> None:
        (repository / "InRelease").write_bytes(keys.clear_sign(release.read_bytes(), keys.retired))

    for fault, why in (
        (changed_metadata, "File has unexpected size|Hash Sum mismatch"),
        (expired_signature, "is expired"),
        (rotated_key, "NO_PUBKEY|couldn't be verified"),
    ):
        fault()
        done = fetch(host, root, folder)
        assert done.returncode == 1, fault
        assert re.search(why, done.stderr), done.stderr
        assert "hint: " in done.stderr
        assert not folder.exists()
        for path, content in good.items():
            path.write_bytes(content)
    killed = folder / ".new-killed/tree"
    killed.mkdir(parents=True)
    done = fetch(host, root, folder)
    assert done.returncode == 0, done.stderr
    assert not killed.exists()
