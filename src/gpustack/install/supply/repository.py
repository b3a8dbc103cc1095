"""The index of a bundle's packages, as apt, dnf and zypper read it from a folder, signed with the bundle's key."""

from __future__ import annotations

import shutil
from pathlib import Path

from gpustack.errors import GpustackError
from gpustack.install.supply.closure import PACKAGES, Closure
from gpustack.install.supply.signing import BundleKey
from gpustack.model.lock import LockedPackage
from gpustack.plan.managers.database import rpm_in_file
from gpustack.system.hashed import sha256_of_file
from gpustack.system.packed import ENDINGS, unpacked
from gpustack.system.run import LocalRunner

DEB, RPM, WHEELS = "deb", "rpm", "wheels"
"""The folders of a bundle that contain packages."""

_RPM_FORM = r"%{NAME}\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\t%{ARCH}\n"


def take_debs(closure: Closure, folder: Path, key: BundleKey) -> list[LockedPackage]:
    """Move the .deb packages to ``folder`` with a flat, signed index."""
    files = sorted((closure.tree / PACKAGES.lstrip("/") / "debs").glob("*.deb"))
    if not files:
        return []
    folder.mkdir(parents=True)
    blocks, locked = [], []
    for file in files:
        control = closure.must(("dpkg-deb", "--field", f"{PACKAGES}/debs/{file.name}"))
        sha256, size = sha256_of_file(file), file.stat().st_size
        blocks.append(f"{control.rstrip()}\nFilename: ./{file.name}\nSize: {size}\nSHA256: {sha256}\n")
        fields = dict(line.split(": ", 1) for line in control.splitlines() if ": " in line and line[0] != " ")
        locked.append(
            LockedPackage(
                kind="deb",
                name=fields["Package"],
                version=fields["Version"],
                arch=fields["Architecture"],
                url=closure.urls.get(file.name, ""),
                file=f"{DEB}/{file.name}",
                size=size,
                sha256=sha256,
                step=closure.steps.get(file.name, ""),
            )
        )
        _move(file, folder / file.name)
    index = folder / "Packages"
    index.write_text("\n".join(blocks), encoding="utf-8")
    sums = f" {sha256_of_file(index)} {index.stat().st_size} Packages"
    head = f"Origin: gpustack\nLabel: gpustack bundle\nDate: Thu, 01 Jan 1970 00:00:00 UTC\nSHA256:\n{sums}\n"
    (folder / "Release").write_text(head, encoding="utf-8")
    key.sign(folder / "Release", folder / "InRelease", clear=True)
    return locked


def take_rpms(closure: Closure, folder: Path, key: BundleKey) -> list[LockedPackage]:
    """Move the .rpm packages to ``folder`` with a signed index that includes their repositories' module streams."""
    home = closure.tree / PACKAGES.lstrip("/") / "rpms"
    files = sorted(home.glob("*.rpm"))
    if not files:
        return []
    maker = shutil.which("createrepo_c")
    if maker is None:
        msg = "createrepo_c makes the index of .rpm packages and is not installed"
        raise GpustackError(
            msg, code="tool-missing", where="bundle", hint="install the package createrepo_c (Debian: createrepo-c)"
        )
    folder.mkdir(parents=True)
    locked = []
    for file in files:
        inside = f"{PACKAGES}/rpms/{file.name}"
        told = closure.must(rpm_in_file(inside, _RPM_FORM))
        name, version, arch = told.strip().splitlines()[-1].split("\t")
        locked.append(
            LockedPackage(
                kind="rpm",
                name=name,
                version=version,
                arch=arch,
                file=f"{RPM}/{file.name}",
                size=file.stat().st_size,
                sha256=sha256_of_file(file),
                step=closure.steps.get(file.name, ""),
            )
        )
        _move(file, folder / file.name)
    _must((maker, "--quiet", str(folder)))
    streams = _streams(closure.tree)
    if streams:
        modules = folder / "modules.yaml"
        modules.write_bytes(streams)
        _must(("modifyrepo_c", "--mdtype=modules", str(modules), str(folder / "repodata")))
    key.sign(folder / "repodata/repomd.xml", folder / "repodata/repomd.xml.asc")
    shutil.copy(folder.parent / "key.asc", folder / "repodata/repomd.xml.key")
    return locked


def take_wheels(closure: Closure, folder: Path) -> list[LockedPackage]:
    """Move the wheels to ``folder``; pip verifies each by its checksum in the plan."""
    files = sorted((closure.tree / PACKAGES.lstrip("/") / "wheels").glob("*.whl"))
    locked = []
    for file in files:
        folder.mkdir(parents=True, exist_ok=True)
        name, version, *_ = file.name.split("-")
        locked.append(
            LockedPackage(
                kind="wheel",
                name=name,
                version=version,
                file=f"{WHEELS}/{file.name}",
                size=file.stat().st_size,
                sha256=sha256_of_file(file),
                step=closure.steps.get(file.name, ""),
            )
        )
        _move(file, folder / file.name)
    return locked


def _streams(tree: Path) -> bytes:
    """The repositories' module documents, without which the bundle's packages belong to no stream."""
    found = []
    for name in ("var/cache/dnf", "var/cache/yum", "var/cache/libdnf5"):
        for file in sorted((tree / name).rglob("*modules.yaml*")):
            if file.suffix in {*ENDINGS, ".yaml"}:
                with unpacked(file) as content:
                    found.append(content.read().rstrip() + b"\n")
    return b"".join(found)


def _move(source: Path, target: Path) -> None:
    shutil.move(source, target)
    target.chmod(0o644)


def _must(argv: tuple[str, ...]) -> None:
    done = LocalRunner().run(argv, timeout=600.0)
    if done.code != 0:
        msg = f"`{argv[0]}` failed: {done.error or done.err.strip()}"
        raise GpustackError(
            msg, code="command-failed", where="bundle", hint="createrepo_c and modifyrepo_c come in one package"
        )
