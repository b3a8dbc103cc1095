"""A publisher of small facts with keys of its own, and a server on loopback that may turn hostile."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.small_matrix import HEAD, SUBJECTS

from gpustack import resources
from gpustack.matrix.feed.client import Outcome, update
from gpustack.matrix.packed import pack
from gpustack.matrix.store import open_store

ROLES = ("root", "targets", "generated", "snapshot", "timestamp")
FILES = """\
  archives:
    about: f
    key: [file]
    fields: {file: text, version: version, platform: word, url: url, sha256: sha256}
    rows:
"""


def archive(name: str, *, host: str = "developer.example.com", digit: str = "1") -> str:
    return (
        f"      - {{file: {name}, version: 1.0, platform: linux, url: 'https://{host}/{name}', sha256: {digit * 64},"
        " src: [page]}\n"
    )


def load_tool() -> ModuleType:
    """ci/bundle.py as a module."""
    path = resources.folder("matrices").parent / "ci" / "bundle.py"
    spec = importlib.util.spec_from_file_location("bundle_tool", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bundle_tool"] = module
    spec.loader.exec_module(module)
    return module


TOOL = load_tool()


class Publisher:
    """A repository, the private keys of all its roles, and the matrices that it publishes."""

    def __init__(self, folder: Path, keys: Path) -> None:
        self.path = folder / "repo"
        self.keys = keys
        self.matrices = folder / "matrices"
        (self.matrices / "generated").mkdir(parents=True)
        for subject, text in SUBJECTS.items():
            (self.matrices / f"{subject}.yaml").write_text(HEAD.format(subject=subject) + text)
        self.archives(archive("a.tar"))
        self.now = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(hours=1)

    def archives(self, *rows: str) -> None:
        path = self.matrices / "generated" / "files.yaml"
        path.write_text(HEAD.format(subject="files") + FILES + "".join(rows))

    def release(self, version: str) -> None:
        """One more release of CUDA."""
        path = self.matrices / "cuda.yaml"
        path.write_text(
            path.read_text().replace("  rules:", f"      - {{version: {version}, src: [page]}}\n  rules:", 1)
        )

    def repo(self, *names: str, now: datetime | None = None) -> Any:
        """The repository with these private keys at hand (all but spare ones by default)."""
        chosen = names or ("root-1", "root-2", *ROLES[1:])
        return TOOL.Folder(self.path, [TOOL.signer_of(self.keys / f"{name}.pem") for name in chosen], now or self.now)

    def public(self, *names: str) -> list[Path]:
        return [self.keys / f"{name}.pub" for name in names]

    def init(self) -> Path:
        """Make the repository; the result is its root of trust."""
        keys = {role: self.public(role) for role in ROLES[1:]} | {"root": self.public("root-1", "root-2", "root-3")}
        TOOL.init(self.repo(), keys, dict.fromkeys(ROLES, 1) | {"root": 2})
        return self.path / "metadata" / "1.root.json"

    def publish(self, role: str = "targets", *names: str, now: datetime | None = None) -> None:
        """Publish the matrices as they are, a minute after the last time."""
        self.now += timedelta(minutes=1)
        repo = self.repo(*names, now=now)
        TOOL.publish(repo, role, f"{now or self.now:%Y-%m-%dT%H:%M:%SZ}", self.matrices)
        repo.announce()


class Machine:
    """A folder of updates that trusts the publisher."""

    def __init__(self, folder: Path, root: Path | None) -> None:
        self.folder = folder
        self.root = root

    def update(self, source: object) -> Outcome:
        return update(self.folder, str(source), self.root)


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    TOOL.make_keys(folder, ["root-1", "root-2", "root-3", "stranger", *ROLES[1:]])
    return folder


@pytest.fixture
def publisher(tmp_path: Path, keys: Path) -> Publisher:
    return Publisher(tmp_path, keys)


@pytest.fixture
def machine(publisher: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine that has installed the first publication."""
    root = publisher.init()
    publisher.publish("generated")
    publisher.publish()
    found = Machine(tmp_path / "facts", root)
    monkeypatch.setenv("GPUSTACK_FACTS", str(found.folder))
    found.update(publisher.path)
    return found


Answer = Callable[[BaseHTTPRequestHandler], bool]


class Server:
    """The publisher's folder over HTTP; ``instead`` answers a path otherwise."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.instead: dict[str, Answer] = {}
        self.asked: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                other = next((one for end, one in server.instead.items() if self.path.endswith(end)), None)
                if other is not None and other(self):
                    return
                path = server.folder / self.path.removeprefix("/")
                if not path.is_file():
                    self.send_error(404)
                    return
                body = path.read_bytes()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server(publisher: Publisher) -> Iterator[Server]:
    made = Server(publisher.path)
    yield made
    made.close()


class Installation:
    """gpustack as a wheel installs it: a copy of the package with its compiled facts, published ``age`` ago."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(resources.folder("matrices").parent / "src" / "gpustack", folder / "gpustack")
        store = open_store()
        self.index = store.index
        compiled = folder / "gpustack" / "compiled"
        compiled.mkdir()
        blobs = {path.stem: path.read_bytes() for path in resources.compiled_folder().glob("*.msgpack")}
        for name, content in {"index.msgpack": blobs.pop("index"), **pack(blobs)}.items():
            (compiled / name).write_bytes(content)

    def published(self, age: timedelta) -> None:
        index = replace(self.index, made=f"{datetime.now(timezone.utc) - age:%Y-%m-%dT%H:%M:%SZ}")
        (self.folder / "gpustack" / "compiled" / "index.msgpack").write_bytes(msgspec.msgpack.encode(index))

    def call(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUSTACK")}
        return subprocess.run(
            [sys.executable, "-m", "gpustack", *words],
            env={**kept, "PYTHONPATH": str(self.folder), "GPUSTACK_FACTS": str(self.folder / "facts"), **environment},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return Installation(tmp_path_factory.mktemp("installation"))
