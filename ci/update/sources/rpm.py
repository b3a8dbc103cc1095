"""Indexes of rpm repositories (repomd.xml and primary.xml.gz): which versions a folder of the vendor offers."""

from __future__ import annotations

import xml.etree.ElementTree as ET
import zlib
from collections.abc import Iterator, Sequence

from update.record import Body, Found, Given, refuse
from update.sources.packages import demand_sum, folder_of, offers

HAND_OUT = "repodata/repomd.xml and the primary.xml.gz that it names, of each folder"
LARGEST = 256 << 20
"""The most bytes of an unpacked index; the vendor's largest has a fifth of it."""

_REPO = "{http://linux.duke.edu/metadata/repo}"
_COMMON = "{http://linux.duke.edu/metadata/common}"


def rows(bodies: Sequence[Body]) -> Given:
    """The offers of every folder whose repomd.xml and primary.xml.gz are there."""
    sums: dict[str, str] = {}
    for body in bodies:
        if body.address.endswith("/repodata/repomd.xml"):
            sums.update(_primary(body))
    found: list[Found] = []
    for body in bodies:
        repo, arch, rest = folder_of(body)
        if rest == "repodata/repomd.xml":
            continue
        if not rest.endswith("primary.xml.gz"):
            raise refuse(body.address, "is no index of packages")
        demand_sum(body, sums.get(body.address))
        found += offers(repo, arch, _packages(body))
    return Given(tuple(found))


def _primary(body: Body) -> Iterator[tuple[str, str]]:
    """The address of the list of packages and its sum."""
    for data in _tree(body, body.data).findall(f"{_REPO}data[@type='primary']"):
        place, found = data.find(f"{_REPO}location"), data.find(f"{_REPO}checksum[@type='sha256']")
        if place is None or found is None or not found.text:
            raise refuse(body.address, "lists primary.xml.gz without its place or its sha256")
        yield body.address.removesuffix("repodata/repomd.xml") + place.get("href", ""), found.text.strip()


def _packages(body: Body) -> Iterator[tuple[str, str]]:
    for package in _tree(body, unpacked(body)).findall(f"{_COMMON}package"):
        name, number = package.find(f"{_COMMON}name"), package.find(f"{_COMMON}version")
        place = package.find(f"{_COMMON}location")
        if name is None or number is None or place is None or not name.text:
            raise refuse(body.address, "has a package without name, version or location")
        text = f"{number.get('ver')}-{number.get('rel')}"
        if f"{name.text}-{text}." not in place.get("href", ""):
            raise refuse(body.address, f"has {name.text} {text} in {place.get('href', '')[:100]}")
        yield name.text, str(number.get("ver"))


def unpacked(body: Body) -> bytes:
    """The content of a gzip file. Raises SourceError if it is none, is cut, or holds more than LARGEST."""
    unpacker = zlib.decompressobj(31)
    try:
        data = unpacker.decompress(body.data, LARGEST)
    except zlib.error as exc:
        raise refuse(body.address, f"is not a gzip file: {exc}") from exc
    if not unpacker.eof:
        raise refuse(body.address, "is cut, or too large")
    return data


def _tree(body: Body, data: bytes) -> ET.Element:
    if b"<!" in data:
        raise refuse(body.address, "has a declaration that indexes do not have")
    try:
        return ET.fromstring(data)  # noqa: S314 (without declarations there is nothing to expand)
    except (ET.ParseError, ValueError, LookupError) as exc:
        raise refuse(body.address, f"is not XML: {exc}") from exc
