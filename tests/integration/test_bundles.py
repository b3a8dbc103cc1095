"""Bundles from real apt, dnf and zypper: made beside the vendor's hosts, installed where there is no network at all."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest
from tests.integration.field import HOSTS, NOT_RUN, NOT_RUN_PHASES, Ask, Scene
from tests.integration.keys import Certificate, make_certificate
from tests.integration.managers import installed, missing
from tests.integration.roots import Root

from gpustack import resources
from gpustack.errors import GpustackError
from gpustack.install.bundle import Bundle
from gpustack.install.closure import program_at
from gpustack.install.offline import offline_plan, place_for
from gpustack.model.plan import Plan
from gpustack.plan.document import dump


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, *words: Any) -> None:  # type: ignore[override]
        """Say nothing."""


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("local") / "tls", ("localhost",))


@pytest.fixture
def fetch(local: Certificate, tmp_path: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """``gpustack fetch`` of a scene's plan, with the scene's files on a mirror."""
    servers: list[ThreadingHTTPServer] = []

    def run(host: Scene, root: Root, folder: Path) -> subprocess.CompletedProcess[str]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(host.www)))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(local.chain, local.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        plan = tmp_path / "plan.json"
        plan.write_text(dump(host.plan))
        mirror = f"https://localhost:{server.server_address[1]}"
        command = [sys.executable, "-m", "gpustack", "fetch", str(plan), "--to", str(folder), "--root", str(root.path)]
        command += [word for name in HOSTS for word in ("--mirror", f"https://{name}/={mirror}/{name}/")]
        environment = {
            **os.environ,
            "PYTHONPATH": str(resources.folder("matrices").parent / "src"),
            "REQUESTS_CA_BUNDLE": str(local.authority),
            "GPUSTACK_CACHE": str(tmp_path / "cache"),
        }
        return subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=600)

    yield run
    for server in servers:
        server.shutdown()
        server.server_close()


def run_offline(root: Root, plan: Plan, bundle: Bundle) -> None:
    """Run a plan's own commands in a root that has no network, not even loopback."""
    for step in plan.steps:
        if step.phase in NOT_RUN_PHASES:
            continue
        for artifact in step.artifacts:
            place = root.inside(artifact.path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(bundle(artifact, lambda _done, _total: None).read_bytes())
        for file in step.files:
            root.write(file.path, file.content, int(file.mode, 8))
        for argv in step.commands:
            if argv[program_at(argv)] not in NOT_RUN:
                done = subprocess.run(
                    ["unshare", "--net", "chroot", str(root.path), *argv],
                    check=False,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"},
                    timeout=300,
                )
                assert done.returncode == 0, f"{argv}\n{done.stdout}"


ASKED = {
    "debian12": Ask("debian12", ("driver", "cuda", "cudnn")),
    "rhel9": Ask("rhel9.4", ("driver", "cuda", "cudnn")),
    "sles15": Ask("sles15.6", ("driver", "cuda")),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_a_bundle_brings_the_whole_stack_where_there_is_no_network(
    ask: Ask,
    scene: Callable[..., Scene],
    enter: Callable[..., Root],
    fetch: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    host = scene(ask)
    root = enter(host)
    before = root.settings()
    folder = tmp_path / "bundle"
    done = fetch(host, root, folder)
    assert done.returncode == 0, done.stderr
    assert root.settings() == before
    bundle = Bundle(folder)
    bundle.check()
    assert bundle.manifest.fingerprint in done.stdout
    assert all(package.sha256 and package.size for package in bundle.lock.packages)
    target = enter(host, "far-away")
    run_offline(target, offline_plan(bundle, place_for(bundle, target.path)), bundle)
    there = installed(target, host.system.family)
    assert not missing(host.plan, there)
    assert {package.name for package in bundle.lock.packages} <= there.keys()


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
    with pytest.raises(GpustackError, match=f"(?s)1 files of the bundle are gone or damaged.*{package.name}"):
        Bundle(folder).check()
    manifest = folder / "manifest.json"
    changed = msgspec.json.decode(manifest.read_bytes())
    changed["left"] = ["nothing"]
    manifest.write_bytes(msgspec.json.encode(changed))
    with pytest.raises(GpustackError, match="the signature does not hold"):
        Bundle(folder)
