"""Flat repositories of small .deb packages, as the vendor lays them out, and a small archive of the distribution."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests import shared
from tests.integration.catalogue import Package
from tests.integration.keys import SigningKeys

VENDOR = {"Origin": "NVIDIA", "Label": "NVIDIA CUDA", "Architectures": "amd64"}


def build_deb(package: Package, folder: Path) -> Path:
    """One package file; its only content are the files that the facts say it brings."""
    target = folder / f"{package.name}_{package.version.replace(':', '%3a')}_amd64.deb"
    if not shared.copied(f"deb {package}", target):
        _build(package, folder, target)
        shared.keep(f"deb {package}", target)
    return target


def _build(package: Package, folder: Path, target: Path) -> None:
    tree = folder / f".{package.name}_{package.version}"
    for path, content in package.files.items():
        place = tree / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode("latin-1"))
        # What is in DEBIAN are the scripts of the package.
        place.chmod(0o755 if path.startswith("/DEBIAN/") else 0o644)
    control = tree / "DEBIAN" / "control"
    control.parent.mkdir(parents=True, exist_ok=True)
    control.write_text(_control(package))
    command = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(tree), str(target)]
    subprocess.run(command, check=True, capture_output=True)
    shutil.rmtree(tree)


def build_repository(folder: Path, packages: list[Package], *, prefix: str = "./") -> None:
    """The package files and their index, unsigned; ``prefix`` leads from the repository's address to the files."""
    folder.mkdir(parents=True, exist_ok=True)
    blocks = []
    for package in packages:
        file = build_deb(package, folder)
        blocks.append(f"{_control(package)}Filename: {prefix}{file.name}\n{_sums(file)}")
    (folder / "Packages").write_text("\n".join(blocks))


def sign_repository(folder: Path, keys: SigningKeys, fingerprint: str, *, head: dict[str, str] = VENDOR) -> None:
    """Release and InRelease over every index below ``folder``; without a fingerprint there is Release only."""
    lines = [f"{name}: {value}" for name, value in head.items()]
    lines += ["Date: Thu, 01 Oct 2026 00:00:00 UTC", "SHA256:"]
    for file in sorted(folder.rglob("Packages")):
        content = file.read_bytes()
        lines.append(f" {hashlib.sha256(content).hexdigest()} {len(content)} {file.relative_to(folder)}")
    release = ("\n".join(lines) + "\n").encode()
    (folder / "Release").write_bytes(release)
    if fingerprint:
        (folder / "InRelease").write_bytes(keys.clear_sign(release, fingerprint))


def keyring_package(url: str, repo: str, arch: str, public_key: bytes) -> Package:
    """The vendor's cuda-keyring: source list, key and preferences."""
    keyring = "/usr/share/keyrings/cuda-archive-keyring.gpg"
    return Package(
        "cuda-keyring",
        "1.1-1",
        files={
            f"/etc/apt/sources.list.d/cuda-{repo}-{arch}.list": f"deb [signed-by={keyring}] {url} /\n",
            keyring: public_key.decode("latin-1"),
            "/etc/apt/preferences.d/cuda-repository-pin-600": "Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n",
        },
    )


def _control(package: Package) -> str:
    depends = ", ".join(
        f"{name} ({operator} {wanted})" if operator else name for name, operator, wanted in package.depends
    )
    return "".join(
        [
            f"Package: {package.name}\nVersion: {package.version}\nArchitecture: amd64\n",
            f"Depends: {depends}\n" if depends else "",
            f"Provides: {package.provides}\n" if package.provides else "",
            f"Conflicts: {package.conflicts}\n" if package.conflicts else "",
            "Maintainer: cudatools <cudatools@gpustack.test>\nDescription: stands in for the vendor's\n",
        ]
    )


def _sums(file: Path) -> str:
    content = file.read_bytes()
    return f"Size: {len(content)}\nSHA256: {hashlib.sha256(content).hexdigest()}\n"
