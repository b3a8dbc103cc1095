"""The indexes of .rpm repositories: address, size and sha256 of packages, as the package manager verified them.

dnf, yum and zypper keep the indexes that they read; the same files are read here, and nothing is downloaded.
"""

import configparser
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree as ET

from msgspec import Struct

from gpustack.install.root import InstallRoot
from gpustack.system.packed import unpacked

_CACHES = ("/var/cache/dnf", "/var/cache/libdnf5", "/var/cache/yum", "/var/cache/zypp/raw")
_SETTINGS = ("/etc/yum.repos.d", "/etc/zypp/repos.d", "/etc/distro.repos.d")
_HASH = re.compile(r"-[0-9a-f]{16}$")
_PIECE = 1 << 20
_END = b"</package>"
_NAME = re.compile(rb"<name>([^<]+)</name>")

Key = tuple[str, str, str]
"""Name, version with epoch (none for 0) and release, architecture."""


class Listed(Struct, frozen=True):
    """One package of an index; ``url`` is empty if its repository uses a list of mirrors."""

    url: str
    sha256: str
    size: int | None


def listed(target: InstallRoot, names: Collection[str], arch: str) -> dict[Key, set[Listed]]:
    """The packages with these names in the kept indexes. An unreadable index contributes nothing.

    ``arch`` is that of the system, for ``$basearch`` in addresses.
    """
    bases = _addresses(target, arch)
    found: dict[Key, set[Listed]] = {}
    wanted = {name.encode() for name in names}
    for folder in map(target.followed, _CACHES):
        for path in sorted(folder.glob("*/repodata/*primary.xml*")):
            base = bases.get(_HASH.sub("", path.parent.parent.name), "")
            with suppress(OSError, ET.ParseError, KeyError):
                for key, one in _packages(path, wanted, base):
                    found.setdefault(key, set()).add(one)
    return found


class Kept(Struct, frozen=True):
    """A kept index, and the address of its repository."""

    path: Path
    base: str


def verified(target: InstallRoot, arch: str) -> Iterator[Kept | str]:
    """The kept indexes of repositories that check signatures; of the others, the path alone."""
    bases, checking = _addresses(target, arch), set(_checking(target))
    for folder in map(target.followed, _CACHES):
        for path in sorted(folder.glob("*/repodata/*primary.xml*")):
            name = _HASH.sub("", path.parent.parent.name)
            yield Kept(path, bases.get(name, "")) if name in checking else str(path)


def versions(path: Path) -> dict[str, frozenset[str]]:
    """The versions, with their releases, of each package of an index. Raises OSError, ValueError."""
    found: dict[str, set[str]] = {}
    for raw in _entries(path):
        name, version = _NAME.search(raw), _VERSION.search(raw)
        if name is not None and version is not None:
            attributes = dict(_ATTRIBUTE.findall(version[1].decode()))
            found.setdefault(name[1].decode(), set()).add(f"{attributes['ver']}-{attributes['rel']}")
    return {name: frozenset(all_versions) for name, all_versions in found.items()}


_VERSION = re.compile(rb"<version ([^>]*)/?>")
_ATTRIBUTE = re.compile(r'(ver|rel)="([^"]*)"')


def _checking(target: InstallRoot) -> Iterator[str]:
    """The repositories whose packages or indexes are checked by their signatures."""
    default = any(
        entries.getboolean("main", "gpgcheck", fallback=False)
        for entries in _settings([target.followed(path) for path in _MAIN])
    )
    for folder in map(target.followed, _SETTINGS):
        for entries in _settings(sorted(folder.glob("*.repo"))):
            for name in entries.sections():
                with suppress(ValueError):
                    if any(entries.getboolean(name, key, fallback=default) for key in ("gpgcheck", "repo_gpgcheck")):
                        yield name


_MAIN = ("/etc/dnf/dnf.conf", "/etc/yum.conf")


def _settings(paths: Iterable[Path]) -> Iterator[configparser.ConfigParser]:
    """Files of settings; one that cannot be read is empty."""
    for path in paths:
        entries = configparser.ConfigParser(interpolation=None, strict=False)
        with suppress(OSError, configparser.Error, UnicodeDecodeError):
            entries.read_string(path.read_text(encoding="utf-8"))
        yield entries


def plain(version: str) -> str:
    """A version in the form of ``listed``: an epoch of 0 is omitted."""
    return version.removeprefix("0:")


def _packages(path: Path, wanted: set[bytes], base: str) -> Iterator[tuple[Key, Listed]]:
    for raw in _entries(path):
        name = _NAME.search(raw)
        if name is not None and name[1] in wanted:
            begin = raw.index(b"<package")
            # The package manager has compared it with the signed checksums of its repository.
            entry = ET.fromstring(_without_prefixes(raw[begin:]))  # noqa: S314
            sums = {one.get("type"): one.text or "" for one in entry.findall("checksum")}
            version, location = entry.find("version"), entry.find("location")
            if version is None or location is None or "sha256" not in sums:
                continue
            epoch = version.get("epoch", "0")
            evr = f"{version.get('ver')}-{version.get('rel')}"
            size = entry.find("size")
            length = size.get("package", "") if size is not None else ""
            address = f"{base.rstrip('/')}/{location.get('href')}" if base and not location.attrib.get("base") else ""
            key = (
                entry.findtext("name", ""),
                evr if epoch in {"", "0"} else f"{epoch}:{evr}",
                entry.findtext("arch", ""),
            )
            yield key, Listed(address, sums["sha256"], int(length) if length.isdigit() else None)


def _entries(path: Path) -> Iterator[bytes]:
    """The index split after each package: that of a distribution is too large to load at once."""
    rest = b""
    with unpacked(path) as content:
        while piece := content.read(_PIECE):
            *whole, rest = (rest + piece).split(_END)
            for one in whole:
                yield one + _END


_PREFIXES = re.compile(rb"(</?)\w+:|\s\w+:(\w+=)")


def _without_prefixes(entry: bytes) -> bytes:
    """An entry by itself: its name space prefixes are declared only at the head of the index."""
    return _PREFIXES.sub(lambda found: found[1] or b" " + found[2], entry)


_BASEARCH = re.compile(r"\$basearch\b|\$\{basearch\}")


def _addresses(target: InstallRoot, arch: str) -> dict[str, str]:
    """The address of each repository that has a plain one."""
    found: dict[str, str] = {}
    for folder in map(target.followed, _SETTINGS):
        for entries in _settings(sorted(folder.glob("*.repo"))):
            for name in entries.sections():
                address = _BASEARCH.sub(arch, entries.get(name, "baseurl", fallback="").strip())
                if address.startswith(("https://", "http://")) and not re.search(r"[\s$]", address):
                    found[name] = address
    return found
