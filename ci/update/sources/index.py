"""Project pages of a package index in their JSON form: what each wheel is, with its sum. The only reader of them."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from update.form import DATE, SHA256, WORD, json_of, keys, listing, mapping, text
from update.record import Body, refuse
from update.sources.wheel_tags import glibc_of, platform_of

_TOP = ("files", "meta", "name", "versions", "project-status", "alternate-locations", "tracks")
_FILE = (
    *("filename", "hashes", "requires-python", "size", "upload-time", "url", "yanked"),
    *("core-metadata", "data-dist-info-metadata", "dist-info-metadata", "provenance", "gpg-sig"),
)
_PAGE = re.compile(r".*/([a-z0-9][a-z0-9-]*)/")
_NAME = re.compile(
    r"(?P<project>[A-Za-z0-9_.]+)-(?P<version>[0-9][0-9A-Za-z._+]*)(?:-\d[0-9A-Za-z_.]*)?"
    r"-(?P<python>[a-z0-9.]+)-(?P<abi>[a-z0-9_]+)-(?P<tags>[a-z0-9_.]+)\.whl"
)
_TIME = re.compile(rf"{DATE.pattern}T[0-9:.]+Z?")


class WheelFile(NamedTuple):
    """What the name of a wheel and its entry say. ``python`` and ``abi`` are its tags.

    ``platform`` is "any" for all, and "" for one that no fact is about; ``glibc`` is the oldest C library that the
    tags allow, ``day`` that of the upload, ``requires_python`` "" where the entry has none.
    """

    project: str
    version: str
    python: str
    abi: str
    platform: str
    glibc: str
    file: str
    sha256: str
    size: str
    url: str
    day: str
    requires_python: str
    is_yanked: bool

    @property
    def interpreter(self) -> str:
        """The version of CPython that it is for ("3.12"); "" where it is for several."""
        found = re.fullmatch(r"cp(\d)(\d+)", self.python)
        return f"{found[1]}.{found[2]}" if found is not None and self.abi != "abi3" else ""

    @property
    def floor(self) -> str:
        """The oldest CPython of a wheel for several ("3.8"); "" where its tag names none."""
        found = re.fullmatch(r"cp(\d)(\d+)", self.python)
        return f"{found[1]}.{found[2]}" if found is not None and self.abi == "abi3" else ""


def project_of(body: Body) -> str:
    """The project of a page, by its address; the page has to name the same."""
    known = _PAGE.fullmatch(body.address)
    if known is None or json_of(body).get("name") != known[1]:
        raise refuse(body.address, "is the page of another project")
    return known[1]


def wheels_of(body: Body) -> list[WheelFile]:
    """The wheels of a page for CPython with its lock, in its order; source archives and others are passed over."""
    page, project = json_of(body), project_of(body)
    keys(page, _TOP, body.address, needed=("files", "versions", "meta"))
    keys(mapping(page["meta"], body.address), ("api-version", "_last-serial"), body.address)
    if not str(page["meta"].get("api-version", "")).startswith("1."):
        raise refuse(body.address, f"has the version {page['meta'].get('api-version')!r} of the interface")
    listed = set(map(str, listing(page["versions"], body.address)))
    found = []
    for one in listing(page["files"], body.address):
        wheel = _wheel(mapping(one, body.address), project, body.address)
        if wheel is None:
            continue
        if wheel.version not in listed and wheel.version.removesuffix(".0") not in listed:
            raise refuse(body.address, f"has {wheel.file}, whose version is not among those of the project")
        found.append(wheel)
    return found


def _wheel(entry: dict[str, Any], project: str, where: str) -> WheelFile | None:
    """One file of a page; None for what is no wheel for CPython with its lock."""
    keys(entry, _FILE, where, needed=("filename", "hashes", "url", "size"))
    name = text(entry, "filename", WORD, where)
    if not str(entry["url"]).endswith("/" + name):
        raise refuse(where, f"has another address for {name}")
    known = _NAME.fullmatch(name)
    if known is None or re.fullmatch(r"cp\d+t", known["abi"]) or known["python"].startswith("pp"):
        return None
    if re.sub(r"[-_.]+", "-", known["project"]).lower() != project:
        raise refuse(where, f"has {name}, which is of another project")
    size = entry["size"]
    if not isinstance(size, int) or isinstance(size, bool) or size <= 0:
        raise refuse(where, f"has the size {size!r} for {name}")
    tags = known["tags"].split(".")
    platform = platform_of(tags)
    asked = entry.get("requires-python")
    return WheelFile(
        project=project,
        version=known["version"],
        python=known["python"],
        abi=known["abi"],
        platform=platform,
        glibc=glibc_of(tags) if platform.startswith("linux") else "",
        file=name,
        sha256=text(mapping(entry["hashes"], name), "sha256", SHA256, name),
        size=str(size),
        url=str(entry["url"]),
        day=text(entry, "upload-time", _TIME, name)[:10],
        requires_python=asked if isinstance(asked, str) else "",
        is_yanked=bool(entry.get("yanked")),
    )
