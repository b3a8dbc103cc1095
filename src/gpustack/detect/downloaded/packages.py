"""Debian and rpm packages: single ones, and those that hold a whole repository under /var."""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpustack.detect.downloaded.members import MOST, Member, deb_control, in_deb, in_rpm, rpm_header
from gpustack.detect.downloaded.parts import Contents
from gpustack.detect.parse.rpm_header import parse_header
from gpustack.model.own_file import OwnPackage
from gpustack.patterns import later

_RPM_ENTRY = later(
    rb"<name>([^<]+)</name>\s*<arch>[^<]*</arch>\s*"
    rb'<version epoch="(\d*)" ver="([^"]+)" rel="([^"]+)"'
)
_BOARDS = ("tegra", "l4t")


def read_deb(path: Path) -> Contents:
    """A .deb by its control file, or by the index of the repository in it. Raises ValueError, OSError."""
    fields = _stanza(deb_control(path))
    name, version, arch = (fields.get(key, "") for key in ("Package", "Version", "Architecture"))
    if not (name and version and arch):
        msg = "has a control file without name, version or architecture"
        raise ValueError(msg)
    held: tuple[OwnPackage, ...] = ()
    if _holds_packages(name):
        held = _held_debs(in_deb(path))
    return Contents(
        form="repository" if held else "package",
        file=f"{name}_{version.replace(':', '%3a')}_{arch}.deb",
        family="apt",
        arch="" if arch == "all" and held else arch,
        name=name,
        packages=held or (OwnPackage(name=name, version=version),),
        board=any(word in name for word in _BOARDS),
    )


def read_rpm(path: Path) -> Contents:
    """An .rpm by its header, or by the index of the repository in it. Raises ValueError, OSError."""
    header = parse_header(rpm_header(path))
    if header is None:
        msg = "is a damaged rpm package"
        raise ValueError(msg)
    name, epoch, version, release, arch, _vendor = header
    held: tuple[OwnPackage, ...] = ()
    if _holds_packages(name):
        held = _held_rpms(in_rpm(path))
    return Contents(
        form="repository" if held else "package",
        file=f"{name}-{version}-{release}.{arch}.rpm",
        family="rpm",
        arch=arch,
        name=name,
        packages=held or (OwnPackage(name=name, version=_evr(epoch, version, release)),),
        board=any(word in name for word in _BOARDS),
    )


def _holds_packages(name: str) -> bool:
    return "repo" in name


def _held_debs(members: Iterable[Member]) -> tuple[OwnPackage, ...]:
    """The packages of a repository by its index, which the signed Release has to name with its sum."""
    index: bytes | None = None
    release = b""
    for member in members:
        folder, _, name = member.name.rpartition("/")
        if not folder.startswith("var/"):
            continue
        if name == "Packages" or (name == "Packages.gz" and index is None):
            content = member.read(MOST)
            index = content if name == "Packages" else _gunzipped(content)
        elif name in {"Release", "InRelease"}:
            release = member.read(MOST)
        if index is not None and release and _vouches(release, index):
            break
    if index is None:
        return ()
    if not release or not _vouches(release, index):
        msg = "holds a repository whose Release does not have the sum of its index: it is damaged or was changed"
        raise ValueError(msg)
    stanzas = map(_stanza, index.decode("utf-8", "replace").split("\n\n"))
    return tuple(
        OwnPackage(name=one["Package"], version=one["Version"])
        for one in stanzas
        if {"Package", "Version"} <= one.keys()
    )


def _vouches(release: bytes, index: bytes) -> bool:
    sums = (hashlib.sha256(index).hexdigest(), hashlib.md5(index, usedforsecurity=False).hexdigest())
    return any(one.encode() in release for one in sums)


def _held_rpms(members: Iterator[Member]) -> tuple[OwnPackage, ...]:
    for member in members:
        name = member.name.rpartition("/")[2]
        if "/repodata/" in f"/{member.name}" and name.endswith(("primary.xml.gz", "primary.xml")):
            content = member.read(MOST)
            index = _gunzipped(content) if name.endswith(".gz") else content
            found = ((one[1], one[2], one[3], one[4]) for one in _RPM_ENTRY.finditer(index))
            return tuple(
                OwnPackage(name=name.decode(), version=_evr(epoch.decode(), version.decode(), release.decode()))
                for name, epoch, version, release in found
            )
    return ()


def _evr(epoch: str, version: str, release: str) -> str:
    return f"{version}-{release}" if epoch in {"", "0"} else f"{epoch}:{version}-{release}"


def _gunzipped(content: bytes) -> bytes:
    with gzip.open(io.BytesIO(content)) as stream:
        return stream.read(MOST)


def _stanza(text: str) -> dict[str, str]:
    lines = (line.partition(": ") for line in text.splitlines() if ": " in line and not line.startswith((" ", "\t")))
    return {key: value.strip() for key, _, value in lines}
