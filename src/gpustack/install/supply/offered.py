"""What the package repositories of a host offer, as its package manager has read and verified them.

Nothing is downloaded, and no list is read whose signature nobody has checked: apt's lists count if the signed index of
their repository has their sha256, those of dnf, yum and zypper if their repository checks signatures.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import IO
from urllib.parse import unquote

from msgspec import Struct

from gpustack.install.root import InstallRoot
from gpustack.install.supply import rpm_index
from gpustack.system.packed import unpacked
from gpustack.system.run import reading

_LISTS = "/var/lib/apt/lists"
_HELPER = "/usr/lib/apt/apt-helper"
_RELEASE = re.compile(r"_(InRelease|Release)$")
_LIST = re.compile(r"_Packages(\.[a-z0-9]+)?$")
_SUM = re.compile(r"^ ([0-9a-f]{64}) +\d+ (\S+)$")
_LARGEST = 512 << 20
"""The most bytes of a list; Debian's main has 60 MiB."""


class Offer(Struct, frozen=True, kw_only=True):
    """One list: the versions of each package, the repository's address without its scheme, and when it was read.

    ``origin`` is who publishes an apt repository, in its own words ("Debian"). ``arch`` is the package manager's word.
    """

    path: str
    address: str
    origin: str
    date: str
    arch: str
    versions: dict[str, frozenset[str]]


class Unread(Struct, frozen=True, kw_only=True):
    """A list that does not count, and why."""

    path: str
    why: str


def offers(target: InstallRoot, arch: str) -> Iterator[Offer | Unread]:
    """The lists of a host. ``arch`` is that of the system (x86_64)."""
    yield from _apt(target)
    for index in rpm_index.verified(target, arch):
        if isinstance(index, str):
            yield Unread(path=index, why="its repository checks no signatures")
            continue
        try:
            versions = rpm_index.versions(index.path)
        except (OSError, ValueError) as exc:
            yield Unread(path=str(index.path), why=f"cannot be read: {exc}")
            continue
        yield Offer(
            path=str(index.path),
            address=_without_scheme(index.base),
            origin="",
            date=_date(index.path),
            arch=arch,
            versions=versions,
        )


def _apt(target: InstallRoot) -> Iterator[Offer | Unread]:
    folder = target.followed(_LISTS)
    with suppress(OSError):
        names = sorted(path.name for path in folder.iterdir() if path.is_file())
        signed = dict(_signed(folder, names))
        trusting = tuple(_trusting(target))
        for name in (name for name in names if _LIST.search(name)):
            stem = max((one for one in signed if name.startswith(f"{one}_")), key=len, default=None)
            if stem is None or any(name.startswith(place) for place in trusting):
                yield Unread(
                    path=str(folder / name), why="its repository is not signed, or its signature is not checked"
                )
            else:
                yield _apt_list(folder / name, stem, signed[stem])


def _signed(folder: Path, names: list[str]) -> Iterator[tuple[str, str]]:
    """The signed indexes of repositories: the beginning of the names of their files, and their text."""
    for name in names:
        found = _RELEASE.search(name)
        if found is not None and (found[1] == "InRelease" or f"{name}.gpg" in names):
            with suppress(OSError, UnicodeDecodeError):
                yield name[: found.start()], (folder / name).read_text(encoding="utf-8")


def _trusting(target: InstallRoot) -> Iterator[str]:
    """Addresses, as apt spells them in file names, whose signatures the user told apt not to check."""
    places = [target.followed("/etc/apt/sources.list"), *target.followed("/etc/apt/sources.list.d").glob("*")]
    for path in places:
        with suppress(OSError, UnicodeDecodeError):
            text = path.read_text(encoding="utf-8")
            entries = text.split("\n\n") if path.suffix == ".sources" else text.splitlines()
            for entry in entries:
                if re.search(r"(?im)\b(trusted|allow-insecure|allow-weak)\s*[:=]\s*yes\b", entry):
                    for address in re.findall(r"[a-z+]+://\S+", entry):
                        yield _without_scheme(address).rstrip("/").replace("_", "%5f").replace("/", "_")


def _apt_list(path: Path, stem: str, release: str) -> Offer | Unread:
    inside = _LIST.sub("_Packages", path.name)[len(stem) + 1 :].replace("_", "/")
    sums = {found[2]: found[1] for line in release.splitlines() if (found := _SUM.match(line))}
    try:
        with _content(path) as content:
            versions, sha256 = _packages(content)
    except (OSError, ValueError) as exc:
        return Unread(path=str(path), why=f"cannot be read: {exc}")
    if sums.get(unquote(inside)) != sha256:
        return Unread(path=str(path), why="the signed index of its repository has another sha256 for it")
    origin = re.search(r"(?m)^Origin: *(.+)$", release)
    arch = re.search(r"binary-([a-z0-9]+)/", inside)
    return Offer(
        path=str(path),
        address=unquote(stem.replace("_", "/")),
        origin=origin[1].strip() if origin else "",
        date=_date(path),
        arch=arch[1] if arch else "",
        versions=versions,
    )


def _content(path: Path) -> AbstractContextManager[IO[bytes]]:
    # apt's own form, which Python cannot read
    return reading((_HELPER, "cat-file", str(path))) if path.suffix == ".lz4" else unpacked(path)


def _packages(content: IO[bytes]) -> tuple[dict[str, frozenset[str]], str]:
    """The versions of each package of an apt list, and its sha256."""
    digest, size = hashlib.sha256(), 0
    found: dict[str, set[str]] = {}
    name = ""
    for line in content:
        digest.update(line)
        size += len(line)
        if size > _LARGEST:
            msg = f"more than {_LARGEST >> 20} MiB"
            raise ValueError(msg)
        if line.startswith(b"Package: "):
            name = line[9:].decode().strip()
        elif line.startswith(b"Version: "):
            found.setdefault(name, set()).add(line[9:].decode().strip())
    return {name: frozenset(versions) for name, versions in found.items()}, digest.hexdigest()


def offers_version(offer: Offer, package: str, pin: str) -> bool:
    """Whether a list has a package in a version that ``pin`` allows: "580.95.05-*", or "580.95.05" as dnf reads it."""
    wanted = plain(pin)
    return any(
        fnmatch.fnmatchcase(found, wanted) or found.startswith(f"{wanted}-")
        for found in map(plain, offer.versions.get(package, ()))
    )


def plain(version: str) -> str:
    """A version of a package without its epoch."""
    return version.partition(":")[2] or version


def _date(path: Path) -> str:
    """The day on which the package manager wrote a list, in UTC."""
    return f"{datetime.fromtimestamp(path.stat().st_mtime, timezone.utc):%Y-%m-%d}"


def _without_scheme(address: str) -> str:
    return address.partition("://")[2]
