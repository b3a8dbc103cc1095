"""Installed packages from the records of dpkg, rpm, pacman, Portage, xbps and Slackware, and their builders."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from gpustack.detect.evidence import Evidence
from gpustack.detect.names import named
from gpustack.patterns import later

_NAME = later(r"[A-Za-z0-9][\w.+-]{0,150}")
PACMAN = "/var/lib/pacman/local"
_PACMAN = later(r"([a-z0-9][\w+.@-]*?)-(?:(\d+):)?([\w.+]+-\d[\d.]*)")
_PORTAGE = later(r"/var/db/pkg/[\w-]+/([a-z0-9][\w+-]*?)-(\d[\w.]*(?:-r\d+)?)")
XBPS = "/var/db/xbps"
_XBPS = later(r"([\w.+-]+)-([\w.+]+_\d+)")
SLACKWARE = ("/var/lib/pkgtools/packages", "/var/log/packages")
_SLACKWARE = later(r"([\w.+-]+)-([\w.+]+)-(\w+)-(\w+)")


class Package(Struct, frozen=True, kw_only=True):
    """One package. ``version`` is upstream-revision without the epoch; ``origin`` its builder ("" unknown)."""

    name: str
    version: str
    manager: Literal["dpkg", "rpm", "pacman", "portage", "xbps", "slackware"]
    arch: str = ""
    epoch: str = ""
    maintainer: str = ""
    origin: str = ""
    state: str = "installed"
    held: bool = False

    @property
    def installed(self) -> bool:
        """Whether its files are there, configured or not."""
        return self.state != "half-installed"

    @property
    def upstream(self) -> str:
        """The upstream version: without the packager's revision and build suffix."""
        text = self.version.rsplit("-", 1)[0] if "-" in self.version else self.version
        return re.split(r"[+~]", text, maxsplit=1)[0]


def parse_dpkg_status(text: str) -> tuple[Package, ...]:
    """The packages of a dpkg status file, installed or half-way; stanzas without name or version are ignored."""
    found = []
    for stanza in text.split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in stanza.splitlines() if ": " in line and line[0] != " ")
        name, version = fields.get("Package", "").strip(), fields.get("Version", "").strip()
        words = fields.get("Status", "install ok installed").split()
        if (
            not _NAME.fullmatch(name)
            or not version
            or not version.isprintable()
            or words[-1:] in (["config-files"], ["not-installed"])
        ):
            continue
        epoch, _, plain = version.rpartition(":")
        maintainer = fields.get("Maintainer", "")
        found.append(
            Package(
                name=name,
                version=plain,
                epoch=epoch,
                manager="dpkg",
                arch=fields.get("Architecture", "").strip(),
                maintainer=maintainer,
                origin=deb_origin(plain, maintainer),
                state=words[-1] if words else "installed",
                held=words[:1] == ["hold"],
            )
        )
    return tuple(found)


def deb_origin(version: str, maintainer: str) -> str:
    """The builder of a Debian package: by its maintainer, else by the revision that each builder uses."""
    who = maintainer.lower()
    for mark, origin in (
        ("debian", "debian"),
        ("ubuntu", "ubuntu"),
        ("canonical", "ubuntu"),
        ("system76", "pop"),
        ("nvidia", "nvidia"),
        ("cudatools", "nvidia"),
        ("marillat", "deb-multimedia"),
    ):
        if mark in who:
            return _not_canonical(version) if origin == "ubuntu" else origin
    if re.search(r"-0ubuntu0\.\d|-\d+ubuntu\d+(?:\.\d+)+$|-0ubuntu[2-9]", version):
        return "ubuntu"
    if re.search(r"-(?:0|1)ubuntu1$|-1(?:\+cuda[\d.]+)?$", version):
        return "nvidia"
    if re.search(r"-\d+(?:~bpo|~deb|\+deb|\+b)", version):
        return "debian"
    return ""


def _not_canonical(version: str) -> str:
    """Whether NVIDIA built it: its early driver packages kept Ubuntu's maintainer line, with the revision -0ubuntu1."""
    return "nvidia" if re.fullmatch(r"\d{3}\.\d+(?:\.\d+)?-0ubuntu1", version) else "ubuntu"


_RPM_VENDORS = (
    ("nvidia", "nvidia"), ("rpm fusion", "rpmfusion"), ("negativo17", "negativo17"), ("suse", "suse"), ("almalinux",
    "almalinux"),
    ("rocky", "rocky"), ("red hat", "redhat"), ("fedora", "fedora"), ("oracle", "oracle"), ("microsoft", "microsoft"),
    ("amazon", "amazon"), ("centos", "centos"),
)  # fmt: skip


def parse_rpm_lines(lines: tuple[str, ...]) -> tuple[Package, ...]:
    """The packages in lines of name, epoch, version, release, architecture, vendor separated by tabs."""
    found = []
    for line in lines:
        parts = line.split("\t")
        if len(parts) != 6 or not _NAME.fullmatch(parts[0]) or not parts[2]:
            continue
        name, epoch, version, release, arch, vendor = parts
        who = vendor.lower()
        origin = next((origin for mark, origin in _RPM_VENDORS if mark in who), "")
        full = f"{version}-{release}" if release else version
        found.append(
            Package(name=name, version=full, epoch=epoch, manager="rpm", arch=arch, maintainer=vendor, origin=origin)
        )
    return tuple(found)


def _by_folders(evidence: Evidence) -> tuple[Package, ...]:
    """The packages of databases whose entries are names with versions: pacman, xbps, Slackware's pkgtools, Portage."""
    found = []
    for name in evidence.listings.get(PACMAN, ()):
        match = _PACMAN.fullmatch(name)
        if match:
            small = "i686" if match[1].startswith("lib32-") else "x86_64"
            found.append(
                Package(
                    name=match[1], epoch=match[2] or "", version=match[3], manager="pacman", arch=small, origin="arch"
                )
            )
    for name in evidence.listings.get(XBPS, ()):
        match = _XBPS.fullmatch(name)
        if match:
            found.append(Package(name=match[1], version=match[2], manager="xbps", origin="void"))
    for name in next((names for folder in SLACKWARE if (names := evidence.listings.get(folder))), ()):
        match = _SLACKWARE.fullmatch(name)
        if match:
            found.append(
                Package(
                    name=match[1],
                    version=f"{match[2]}-{match[4]}",
                    arch=match[3],
                    manager="slackware",
                    origin="slackware",
                )
            )
    for path in evidence.marks:
        match = _PORTAGE.fullmatch(path)
        if match:
            found.append(Package(name=match[1], version=match[2], manager="portage", origin="gentoo"))
    return tuple(found)


def all_packages(evidence: Evidence) -> tuple[Package, ...]:
    """Every relevant package, of all databases."""
    status = evidence.text("/var/lib/dpkg/status") or ""
    return (*parse_dpkg_status(status), *parse_rpm_lines(evidence.rpms), *_by_folders(evidence))


def matching(packages: tuple[Package, ...], pattern: str) -> tuple[Package, ...]:
    """The installed packages whose full name matches."""
    wanted = named(pattern)
    here = (package for package in packages if package.installed and package.name.startswith(wanted.heads))
    return tuple(package for package in here if wanted.fullmatch(package.name))
