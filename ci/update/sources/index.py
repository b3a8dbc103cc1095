"""Project pages of the package index in their JSON form: what each wheel is, with its sum."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from update.form import DATE, SHA256, WORD, json_of, keys, listing, mapping, text
from update.record import Body, refuse

_TOP = ("files", "meta", "name", "versions", "project-status", "alternate-locations", "tracks")
_FILE = (
    *("filename", "hashes", "requires-python", "size", "upload-time", "url", "yanked"),
    *("core-metadata", "data-dist-info-metadata", "dist-info-metadata", "provenance", "gpg-sig"),
)
_PAGE = re.compile(r".*/([a-z0-9][a-z0-9-]*)/")
_NAME = re.compile(
    r"([a-z0-9_]+)-([0-9][0-9a-z.]*)(?:-\d+)?-((?:py|cp)\d+(?:\.py\d)?)-none-([a-z0-9_.]+)\.whl", re.ASCII
)
_LINUX = re.compile(r"(?:manylinux(1|2010|2014)|manylinux_2_(\d+))_(x86_64|aarch64)")
_TIME = re.compile(rf"{DATE.pattern}T[0-9:.]+Z?")
_LEGACY = {"1": "2.5", "2010": "2.12", "2014": "2.17"}
_PLATFORMS = {"x86_64": "linux-x86_64", "aarch64": "linux-sbsa", "win_amd64": "windows-x86_64"}


class WheelFile(NamedTuple):
    """What the name of a wheel and its entry say. ``glibc`` is "" outside Linux, ``day`` that of the upload."""

    file: str
    version: str
    python: str
    platform: str
    glibc: str
    sha256: str
    size: str
    day: str


def project_of(body: Body) -> str:
    """The project of a page, by its address; the page has to name the same."""
    known = _PAGE.fullmatch(body.address)
    if known is None or json_of(body).get("name") != known[1]:
        raise refuse(body.address, "is the page of another project")
    return known[1]


def wheels_of(body: Body) -> list[WheelFile]:
    """The wheels for the platforms of the facts; withdrawn files, source archives and others are passed over."""
    page = json_of(body)
    keys(page, _TOP, body.address, needed=("files", "versions", "meta"))
    keys(mapping(page["meta"], body.address), ("api-version", "_last-serial"), body.address)
    if not str(page["meta"].get("api-version", "")).startswith("1."):
        raise refuse(body.address, f"has the version {page['meta'].get('api-version')!r} of the interface")
    found = [of_wheel(mapping(one, body.address), body.address) for one in listing(page["files"], body.address)]
    wheels = [one for one in found if one is not None]
    listed = set(map(str, listing(page["versions"], body.address)))
    for one in wheels:
        if one.version not in listed:
            raise refuse(body.address, f"has {one.file}, whose version is not among those of the project")
    return wheels


def of_wheel(entry: dict[str, Any], where: str) -> WheelFile | None:
    """One file of a page; None for what is no wheel for a platform of the facts, or is withdrawn."""
    keys(entry, _FILE, where, needed=("filename", "hashes", "url", "size"))
    name = text(entry, "filename", WORD, where)
    if not str(entry["url"]).endswith("/" + name):
        raise refuse(where, f"has another address for {name}")
    known = _NAME.fullmatch(name)
    if known is None or entry.get("yanked"):
        return None
    if known[1].replace("_", "-") not in where:
        raise refuse(where, f"has {name}, which is of another project")
    linux = next((found for tag in known[4].split(".") if (found := _LINUX.fullmatch(tag))), None)
    platform = _PLATFORMS.get(linux[3] if linux else known[4])
    if platform is None:
        return None
    size = entry["size"]
    if not isinstance(size, int) or isinstance(size, bool) or size <= 0:
        raise refuse(where, f"has the size {size!r} for {name}")
    glibc = "" if linux is None else _LEGACY.get(linux[1] or "") or f"2.{linux[2]}"
    sha256 = text(mapping(entry["hashes"], name), "sha256", SHA256, name)
    day = text(entry, "upload-time", _TIME, name)[:10]
    return WheelFile(name, known[2], known[3], platform, glibc, sha256, str(size), day)
