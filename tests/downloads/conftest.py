"""A misbehaving server over https, and a cache of its own for each test."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.downloads.server import Files, serving
from tests.integration.keys import Certificate, make_certificate

from gpustack.install.supply.cache import Cache
from gpustack.install.supply.downloads import Fetcher
from gpustack.model.steps import Artifact
from gpustack.system.http import Patience

QUICK = Patience(attempts=3, pause=0.01, connect=5, silence=0.5)


@dataclass
class Place:
    """The server, its address, and the cache that files go to."""

    files: Files
    address: str
    cache: Cache

    def offer(self, name: str = "file.tar", size: int = 3_000_001, *, known: bool = True) -> Artifact:
        """Serve random bytes under ``name``; the artifact as a plan has it, without sum and size unless ``known``."""
        content = random.Random(name).randbytes(size)  # noqa: S311 (the same bytes in every run)
        self.files.content[f"/{name}"] = content
        sha256 = hashlib.sha256(content).hexdigest()
        return Artifact(
            url=f"{self.address}/{name}",
            path=f"/var/cache/gpustack/{name}",
            sha256=sha256 if known else "",
            size=size if known else None,
        )

    def fetch(self, artifact: Artifact) -> Path:
        return Fetcher(self.cache, patience=QUICK, mirrors={})(artifact, lambda _done, _total: None)

    def is_right(self, path: Path, name: str = "file.tar") -> bool:
        return path.read_bytes() == self.files.content[f"/{name}"]

    def whole_files(self) -> list[Path]:
        """Everything in the cache that a later run would take without asking the server."""
        return [path for path in (self.cache.folder / "sha256").rglob("*") if path.is_file()]

    def parts(self) -> list[Path]:
        return sorted((self.cache.folder / "partial").iterdir())


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate") / "tls", ("localhost",))


@pytest.fixture
def place(certificate: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate.authority))
    files = Files()
    with serving(files, certificate) as address:
        yield Place(files, address, Cache(tmp_path / "cache"))
