"""Configured package sources, keys, pins, holds and module streams."""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping

from msgspec import UNSET, Struct

from gpustack.detect.evidence import Evidence
from gpustack.detect.parse.packages import Package
from gpustack.model.host import RepositoryEntry
from gpustack.patterns import later

MAX_ENTRIES = 500
MAX_LINES = 500
"""The most lines that are read of one entry."""

_OURS = later(r"nvidia", re.IGNORECASE)
_ONE_LINE = later(r"deb(?:-src)?\s+(?:\[([^\]]*)\]\s*)?(\S+)\s*(.*)")
_CODEREADY = later(r"(?:rhui-)?codeready-builder-for-rhel-\d+(?:-(?:x86_64|aarch64))?-rhui-rpms")
_CREDENTIALS = later(r"(?<=://)[^/@\s]+@")


class SourceEntry(Struct, frozen=True, kw_only=True):
    """One package source of any publisher. ``arches`` are the architectures it is limited to, ``name`` its section."""

    path: str
    url: str
    signed_by: str = ""
    enabled: bool = True
    arches: tuple[str, ...] = ()
    key: str = ""
    text: str = ""
    trusted: bool = False
    name: str = ""

    @property
    def is_nvidia(self) -> bool:
        return bool(_OURS.search(self.url))


def all_sources(evidence: Evidence) -> tuple[SourceEntry, ...]:
    """The sources of apt, dnf and zypper in the order of their files."""
    found: list[SourceEntry] = []
    for path, text in sorted(evidence.files.items()):
        folder = path.rpartition("/")[0]
        if path == "/etc/apt/sources.list" or (folder == "/etc/apt/sources.list.d" and path.endswith(".list")):
            found.extend(parse_one_line(path, text))
        elif folder == "/etc/apt/sources.list.d" and path.endswith(".sources"):
            found.extend(parse_deb822(path, text))
        elif folder in {"/etc/yum.repos.d", "/etc/zypp/repos.d"}:
            found.extend(parse_repo_file(path, text))
    return tuple(found[:MAX_ENTRIES])


def nvidia_repositories(
    sources: tuple[SourceEntry, ...], faults: Mapping[SourceEntry, str]
) -> tuple[RepositoryEntry, ...]:
    """The sources that name NVIDIA, as the host document shows them."""
    return tuple(
        RepositoryEntry(
            path=s.path,
            url=s.url,
            signed_by=s.signed_by or s.key or None,
            enabled=s.enabled,
            fault=faults.get(s) or UNSET,
        )
        for s in sources
        if s.is_nvidia
    )


def codeready(sources: tuple[SourceEntry, ...], arch: str) -> str | None:
    """The id of CodeReady Builder in the update infrastructure of a cloud (RHUI), which is another in each cloud."""
    names = (source.name.replace("$basearch", arch) for source in sources)
    return next((name for name in names if _CODEREADY.fullmatch(name)), None)


def parse_one_line(path: str, text: str) -> list[SourceEntry]:
    """The entries of a sources.list: ``deb [options] address suite components``; a commented one is disabled."""
    found = []
    for raw in text.splitlines()[:MAX_ENTRIES]:
        line = raw.strip()
        enabled = not line.startswith("#")
        match = _ONE_LINE.match(line.lstrip("# "))
        if match is None or "://" not in match[2] or (not enabled and not _OURS.search(line)):
            continue
        options = dict(part.partition("=")[::2] for part in (match[1] or "").split())
        found.append(
            SourceEntry(
                path=path,
                url=_plain(match[2]),
                signed_by=options.get("signed-by", ""),
                enabled=enabled,
                arches=tuple(a for a in options.get("arch", "").split(",") if a),
                trusted=options.get("trusted") == "yes",
                text=match[3],
            )
        )
    return found


def parse_deb822(path: str, text: str) -> list[SourceEntry]:
    """The entries of a .sources file; a stanza with several addresses yields several entries."""
    found = []
    for stanza in re.split(r"\n[ \t]*\n", text)[:MAX_ENTRIES]:
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines()[:MAX_LINES]:
            if line.startswith("#"):
                continue
            if line[:1] in {" ", "\t"} and name:
                fields[name] += "\n" + line.strip()
            elif ":" in line:
                name, _, value = line.partition(":")
                name = name.strip().lower()
                fields[name] = value.strip()
        enabled = fields.get("enabled", "yes").lower() not in {"no", "false", "0", "off"}
        signed_by = fields.get("signed-by", "").strip()
        for url in fields.get("uris", "").split():
            found.append(  # noqa: PERF401 (the fields are computed above)
                SourceEntry(
                    path=path,
                    url=_plain(url),
                    signed_by="(key in the file)" if "BEGIN PGP" in signed_by else signed_by,
                    enabled=enabled,
                    arches=tuple(fields.get("architectures", "").split()),
                    trusted=fields.get("trusted", "") == "yes",
                    text=fields.get("suites", ""),
                )
            )
    return found


def parse_repo_file(path: str, text: str) -> list[SourceEntry]:
    """The sections of a .repo file of dnf or zypper."""
    found = []
    for section in re.split(r"^\[", text, flags=re.MULTILINE)[1 : MAX_ENTRIES + 1]:
        fields: dict[str, str] = {}
        name, title = "", section.partition("]")[0]
        for line in section.splitlines()[1:MAX_LINES]:
            if line[:1] in {" ", "\t"} and name:
                fields[name] += " " + line.strip()
            elif "=" in line and not line.startswith(("#", ";")):
                name, _, value = line.partition("=")
                name = name.strip().lower()
                fields[name] = value.strip()
        enabled = fields.get("enabled", "1").lower() not in {"0", "no", "false"}
        excludes = " ".join((fields.get("exclude", ""), fields.get("excludepkgs", ""))).strip()
        for url in (fields.get("baseurl") or fields.get("mirrorlist") or fields.get("metalink") or "").split():
            found.append(  # noqa: PERF401 (the fields are computed above)
                SourceEntry(
                    path=path,
                    url=_plain(url),
                    enabled=enabled,
                    key=_plain(fields.get("gpgkey", "")),
                    text=excludes,
                    name=title,
                )
            )
    return found


def _plain(url: str) -> str:
    return _CREDENTIALS.sub("", url)


def normal_url(url: str) -> str:
    """An address in normal form, to find duplicates."""
    return re.sub(r"^\w+://", "", url.lower()).rstrip("/")


_KEY_NAME = later(r"nvidia|cuda|7fa2af80|3bf863cc", re.IGNORECASE)
_KEY_FOLDERS = ("/usr/share/keyrings", "/etc/apt/keyrings", "/etc/apt/trusted.gpg.d")


def key_files(evidence: Evidence) -> dict[str, tuple[str, ...]]:
    """The key files by path with their fingerprints."""
    marks = sorted(evidence.marks.items())
    found = {path: tuple(mark.split()[1:]) for path, mark in marks if mark == "key" or mark.startswith("key ")}
    for folder in _KEY_FOLDERS:
        for name in evidence.listings.get(folder, ()):
            if _KEY_NAME.search(name):
                found.setdefault(f"{folder}/{name}", ())
    return found


def host_keys(evidence: Evidence, packages: tuple[Package, ...], known: tuple[str, ...] = ()) -> tuple[str, ...]:
    """NVIDIA's keys on the host, one text each: a file with its fingerprints, or an rpm public key.

    ``known`` are NVIDIA's fingerprints or their last digits, to find its keys in files of other names.
    """
    ends = tuple(text.upper() for text in (*known, "7FA2AF80"))
    files = [
        f"{path} {' '.join(prints)}".strip()
        for path, prints in key_files(evidence).items()
        if _KEY_NAME.search(path) or any(one.endswith(ends) for one in prints)
    ]
    rpms = [f"gpg-pubkey-{package.version}" for package in packages if package.name == "gpg-pubkey"]
    return (*files, *rpms)


def fingerprints(data: bytes) -> tuple[str, ...]:
    """The fingerprints of the version 4 public keys in a key file, armoured or binary."""
    if b"-----BEGIN PGP" in data:
        body = re.search(rb"-----BEGIN PGP[^\n]*\n(?:[^\n:]*:[^\n]*\n)*\r?\n?(.*?)(?:\n=|-----END)", data, re.DOTALL)
        try:
            data = binascii.a2b_base64(body[1]) if body else b""
        except (binascii.Error, ValueError):
            return ()
    return tuple(_packet_fingerprints(data))


def _packet_fingerprints(data: bytes) -> list[str]:
    found: list[str] = []
    at = 0
    while at + 2 < len(data) and data[at] & 0x80 and len(found) < 100:
        head = _packet(data, at)
        if head is None:
            break
        tag, start, length = head
        body = data[start : start + length]
        if tag == 6 and body[:1] == b"\x04":
            import hashlib  # noqa: PLC0415 (loads OpenSSL; most hosts have no such key)

            packet = b"\x99" + len(body).to_bytes(2, "big") + body  # RFC 4880, section 12.2
            found.append(hashlib.sha1(packet, usedforsecurity=False).hexdigest().upper())
        at = start + length
    return found


def _packet(data: bytes, at: int) -> tuple[int, int, int] | None:
    """Tag, start and length of the OpenPGP packet at ``at`` (RFC 4880, section 4.2)."""
    first = data[at]
    if not first & 0x40:
        size = 1 << (first & 3)
        if size == 8:
            return None
        return (first >> 2) & 15, at + 1 + size, int.from_bytes(data[at + 1 : at + 1 + size], "big")
    one = data[at + 1]
    if one < 192:
        return first & 63, at + 2, one
    if one < 224 and at + 2 < len(data):
        return first & 63, at + 3, ((one - 192) << 8) + data[at + 2] + 192
    if one == 255:
        return first & 63, at + 6, int.from_bytes(data[at + 2 : at + 6], "big")
    return None


def pins(evidence: Evidence) -> tuple[str, ...]:
    """The apt pins about NVIDIA, one line each: file, what, priority."""
    found: list[str] = []
    for path, text in sorted(evidence.files.items()):
        if path != "/etc/apt/preferences" and not path.startswith("/etc/apt/preferences.d/"):
            continue
        for stanza in re.split(r"\n[ \t]*\n", text)[:MAX_ENTRIES]:
            fields: dict[str, str] = dict(line.partition(":")[::2] for line in stanza.splitlines() if ":" in line)
            package, pin, priority = (fields.get(name, "").strip() for name in ("Package", "Pin", "Pin-Priority"))
            if re.search(r"nvidia|cuda|cudnn|nvinfer|tensorrt|nccl", f"{path} {package} {pin}", re.IGNORECASE):
                found.append(f"{path}: {package} {pin} {priority}".strip())
    return tuple(found)


def holds(evidence: Evidence, packages: tuple[Package, ...]) -> tuple[str, ...]:
    """The held or locked packages of NVIDIA."""
    found = [package.name for package in packages if package.held and package.installed]
    for path in (
        "/etc/dnf/plugins/versionlock.list",
        "/etc/yum/pluginconf.d/versionlock.list",
        "/etc/dnf/versionlock.toml",
    ):
        found.extend(
            line.strip() for line in (evidence.text(path) or "").splitlines() if line.strip()[:1] not in {"", "#", "["}
        )
    found.extend(re.findall(r"^solvable_name:\s*(\S+)", evidence.text("/etc/zypp/locks") or "", re.MULTILINE))
    for text in evidence.under("/etc/tdnf/locks.d").values():
        found.extend(line.strip() for line in text.splitlines() if line.strip()[:1] not in {"", "#"})
    wanted = re.compile(r"nvidia|cuda|cudnn|nvinfer|tensorrt|nccl|kernel|linux-(?:image|headers)", re.IGNORECASE)
    return tuple(dict.fromkeys(name for name in found if wanted.search(name)))


def streams(evidence: Evidence) -> tuple[str, ...]:
    """The enabled dnf module streams of NVIDIA: "nvidia-driver:575-open"."""
    found: list[str] = []
    for text in evidence.under("/etc/dnf/modules.d", ".module").values():
        for section in re.split(r"^\[", text, flags=re.MULTILINE)[1:]:
            name = section.partition("]")[0].strip()
            fields: dict[str, str] = dict(line.partition("=")[::2] for line in section.splitlines()[1:] if "=" in line)
            fields = {key.strip(): value.strip() for key, value in fields.items()}
            if "nvidia" in name and fields.get("state") == "enabled" and fields.get("stream"):
                found.append(f"{name}:{fields['stream']}")
    return tuple(found)
