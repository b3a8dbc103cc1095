"""Bundles made by hand, so that what is in them can be made to lie."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from tests.by_hand import draft
from tests.install.world import GET, PACKAGES, make_plan
from tests.integration import debs
from tests.integration.keys import SigningKeys

from gpustack.install.lock import document as locks
from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, FileWrite

SERVER = "https://vendor.gpustack.test/"
ARCHIVE = Artifact(url=f"{SERVER}gp.txt", path="/var/cache/gpustack/gp/gp.txt")
CONTENT = b"from the publisher\n" * 1000
step = partial(draft, component="", why="the test asks for it")


def small_plan() -> Plan:
    """A file of the publisher's, a package with what it depends on, a setting."""
    return make_plan(
        [
            step("get", kind="download", title="download", phase="repositories", artifacts=(ARCHIVE,)),
            step("index", kind="refresh-index", title="index", phase="repositories", commands=((*GET, "update"),)),
            step(
                "install",
                kind="install-packages",
                title="install gp-tool",
                phase="driver",
                commands=((*GET, "install", "-y", "gp-tool=1.0"),),
                packages=("gp-tool",),
            ),
            step(
                "write",
                kind="write-file",
                title="write",
                phase="libraries",
                files=(FileWrite(path="/opt/gp/new", content="x\n"),),
            ),
        ]
    )


@dataclass(frozen=True)
class Forge:
    """Makes the bundle in ``folder``; ``key`` is the fingerprint of the one of ``keys`` that signs it."""

    folder: Path
    keys: SigningKeys
    key: str

    def make(self) -> None:
        """A bundle as it should be."""
        debs.build_repository(self.folder / "deb", [one for one in PACKAGES if one.name in {"gp-lib", "gp-tool"}])
        (self.folder / "files").mkdir()
        (self.folder / "files/gp.txt").write_bytes(CONTENT)
        pinned = msgspec.structs.replace(ARCHIVE, sha256=hashlib.sha256(CONTENT).hexdigest(), size=len(CONTENT))
        lock = locks.of_plan(small_plan(), artifacts=[pinned])
        (self.folder / "lock.json").write_text(locks.dump(lock))
        self.put_keys()
        self.sign_packages()
        self.seal()

    def put_keys(self, *more: str) -> None:
        """The public key, and ``more`` keys behind it."""
        for name, armoured in (("key.gpg", False), ("key.asc", True)):
            words = ["--armor"] if armoured else []
            (self.folder / name).write_bytes(self.keys.gpg(*words, "--export", self.key, *more))

    def sign_packages(self) -> None:
        debs.sign_repository(self.folder / "deb", self.keys, self.key, head={"Origin": "gp", "Label": "gp"})

    def seal(self, **changes: Any) -> None:
        """Write and sign the manifest of what lies there now; ``changes`` take the place of its fields."""
        manifest, signature = self.folder / "manifest.json", self.folder / "manifest.json.asc"
        manifest.unlink(missing_ok=True)
        signature.unlink(missing_ok=True)
        files = {
            str(path.relative_to(self.folder)): {
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                "size": path.stat().st_size,
            }
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }
        fields = {
            "schema": "gpustack/bundle/v1",
            "fingerprint": self.key,
            "plan": small_plan().digest,
            "artifacts": {ARCHIVE.url: "files/gp.txt"},
            "files": {**files, **changes.pop("more_files", {})},
            **changes,
        }
        manifest.write_bytes(msgspec.json.encode(fields))
        self.sign()

    def sign(self) -> None:
        content = (self.folder / "manifest.json").read_bytes()
        (self.folder / "manifest.json.asc").write_bytes(self.keys.detached(content, self.key))
