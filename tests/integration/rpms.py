"""Repositories of small .rpm packages: signed packages, signed metadata, module streams."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests import shared
from tests.integration.catalogue import Package, Stream
from tests.integration.keys import SigningKeys

SCRIPTS = "/RPM/"
"""What a package's files are called that are its scripts: /RPM/post, ..."""


def build_rpms(folder: Path, packages: list[Package]) -> None:
    """The package files, unsigned. One run of rpmbuild for as many packages as have different names and files."""
    folder.mkdir(parents=True, exist_ok=True)
    left = [package for package in packages if not shared.copied(f"rpm {package}", _file(package, folder))]
    while left:
        names: dict[str, Package] = {}
        files: dict[str, str] = {}
        for package in left:
            if package.name not in names and all(files.get(path, text) == text for path, text in package.files.items()):
                names[package.name] = package
                files |= package.files
        left = [package for package in left if names.get(package.name) is not package]
        _build(folder, names.values())
        for package in names.values():
            shared.keep(f"rpm {package}", _file(package, folder))


def _file(package: Package, folder: Path) -> Path:
    return folder / f"{package.name}-{package.version.rpartition(':')[2]}.x86_64.rpm"


def sign_rpms(folder: Path, keys: SigningKeys, fingerprint: str) -> None:
    """Sign every package; none without a fingerprint."""
    if not fingerprint:
        return
    files = sorted(map(str, folder.glob("*.rpm")))
    # Debian's rpm looks for gpg2, a name that Debian's GnuPG no longer has.
    defined = {"_gpg_name": fingerprint, "_gpg_path": str(keys.home), "__gpg": str(shutil.which("gpg"))}
    words = [word for name, value in defined.items() for word in ("--define", f"{name} {value}")]
    _must(["rpmsign", *words, "--addsign", *files])


def index_rpms(folder: Path, keys: SigningKeys, fingerprint: str, *, streams: Iterable[Stream] = ()) -> None:
    """repodata over the packages, with the module streams; signed where there is a fingerprint."""
    _must(["createrepo_c", "--quiet", str(folder)])
    repomd = folder / "repodata" / "repomd.xml"
    if streams:
        modules = folder / "modules.yaml"
        modules.write_text(_modules(streams))
        _must(["modifyrepo_c", "--mdtype=modules", str(modules), str(repomd.parent)])
    if fingerprint:
        (repomd.parent / "repomd.xml.asc").write_bytes(keys.detached(repomd.read_bytes(), fingerprint))
        (repomd.parent / "repomd.xml.key").write_bytes(keys.public(fingerprint))


def _build(folder: Path, packages: Iterable[Package]) -> None:
    spec, content = folder / "packages.spec", folder / ".content"
    content.mkdir()
    parts = [
        "Name: gpustack-tests\nVersion: 1\nRelease: 1\nSummary: tests\nLicense: Apache-2.0\nVendor: NVIDIA\n"
        f"%description\nNone.\n%install\ncp -R {content}/. %{{buildroot}}/\n",
    ]
    for package in packages:
        epoch, _, rest = package.version.rpartition(":")
        upstream, _, release = rest.partition("-")
        head = [f"%package -n {package.name}", f"Version: {upstream}", f"Release: {release}", "Summary: stands in"]
        head += [f"Epoch: {epoch}"] if epoch else []
        head += [f"Provides: {package.provides}"] if package.provides else []
        head += [f"Requires: {name} {operator} {wanted}".rstrip() for name, operator, wanted in package.depends]
        what = [f"%description -n {package.name}", "Stands in for the vendor's."]
        scripts = {path.removeprefix(SCRIPTS): text for path, text in package.files.items() if path.startswith(SCRIPTS)}
        what += [f"%{name} -n {package.name}\n{text}" for name, text in scripts.items()]
        files = {path: text for path, text in package.files.items() if not path.startswith(SCRIPTS)}
        marks = ("%config(noreplace) " if path.startswith("/etc/") and scripts else "" for path in files)
        listed = [f"{mark}{path}" for mark, path in zip(marks, files, strict=True)]
        parts.append("\n".join([*head, *what, f"%files -n {package.name}", *listed, ""]))
        for path, text in files.items():
            target = content / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode("latin-1"))
    spec.write_text("\n".join(parts))
    top = folder / ".rpmbuild"
    command = ["rpmbuild", "--quiet", "-bb", "--target", "x86_64-linux", "--define", f"_topdir {top}"]
    command += [
        "--define",
        f"_rpmdir {folder}",
        "--define",
        "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
    ]
    command += ["--define", "_binary_payload w0.gzdio", str(spec)]
    _must(command)
    shutil.rmtree(top)
    shutil.rmtree(content)
    spec.unlink()


def _must(command: list[str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)[:500]}\n{done.stdout}{done.stderr}"


def _modules(streams: Iterable[Stream]) -> str:
    documents = []
    for stream in streams:
        artifacts = "".join(f"      - {one.name}-{one.version}.x86_64\n" for one in stream.packages)
        names = "".join(f"          - {name}\n" for name in sorted({one.name for one in stream.packages}))
        documents.append(
            f"---\ndocument: modulemd\nversion: 2\ndata:\n  name: nvidia-driver\n  stream: {stream.name}\n"
            "  version: 1\n  context: 00000000\n  arch: x86_64\n  summary: driver\n  description: driver\n"
            "  license:\n    module: [Apache-2.0]\n"
            f"  profiles:\n    default:\n      rpms:\n{names}"
            f"  artifacts:\n    rpms:\n{artifacts}...\n"
        )
    return "".join(documents)
