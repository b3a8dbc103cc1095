"""Lists that name driver releases: tags with their days, lists of run files, the Unix list, and CUDA's installers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from update.form import DATE, json_of, listing, mapping, numbers, text_of
from update.record import Body, refuse

RELEASE = re.compile(r"\d{3}\.\d{2,3}(\.\d{2})?")
_TAG = re.compile(r"refs/tags/(\S+) (\S+)")
_FILE = re.compile(r"nvidia-([\d.]+)-\w+\.data (https://\S+)")
_UNIX = re.compile(r"(\S+) (\S+) ([\d.]+)")
_INSTALLER = re.compile(r"cuda_(\d+\.\d+\.\d+)_(\d{3}\.\d{2,3}(?:\.\d{2})?)_(linux|win)\w*\.(?:run|exe)")
_LATEST = re.compile(r"(r\d{3})-(linux|windows) (\S+) (\S+)")
_NAMED = re.compile(r"(windows) ([\d.]+) (\S+)")
_CHANNELS = {"beta": "unix-beta", "long-lived-branch-release": "unix-production", "official": "unix-nfb"}
"""What the Unix list says of its current releases."""


def _lines(body: Body, form: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """The lines of a body. Raises SourceError for one that is not of the form."""
    for line in text_of(body).splitlines():
        known = form.fullmatch(line)
        if known is None:
            raise refuse(body.address, f"has the line {line[:80]!r}")
        yield known


def _day(body: Body, text: str) -> str:
    if not DATE.fullmatch(text):
        raise refuse(body.address, f"has the day {text[:40]!r}")
    return text


def tags(body: Body) -> dict[str, str]:
    """The day of each tag that is a release."""
    found = {known[1]: _day(body, known[2]) for known in _lines(body, _TAG)}
    return {name: day for name, day in found.items() if RELEASE.fullmatch(name)}


def patched(body: Body) -> set[tuple[str, str]]:
    """Releases and systems of the drivers that a list of patches knows."""
    document = json_of(body)
    linux = mapping(mapping(document.get("linux"), body.address).get("x86_64"), body.address)
    groups = [("linux", linux), *(("windows", one) for one in mapping(document.get("win"), body.address).values())]
    found = set()
    for system, group in groups:
        for one in listing(mapping(group, body.address).get("drivers"), body.address):
            release = mapping(one, body.address).get("version")
            if not isinstance(release, str) or not RELEASE.fullmatch(release):
                raise refuse(body.address, f"has the release {release!r}")
            found.add((release, system))
    return found


def named(body: Body) -> dict[tuple[str, str], str]:
    """The day on which the history of a list first names each release, by release and system."""
    return {(known[2], known[1]): _day(body, known[3]) for known in _lines(body, _NAMED)}


def files(body: Body) -> dict[str, bool]:
    """The releases of a list of run files, and whether each is a developer's driver by its address."""
    return {known[1]: "/vulkan-beta" in known[2] for known in _lines(body, _FILE) if RELEASE.fullmatch(known[1])}


def channels(body: Body) -> dict[str, list[str]]:
    """The channels of each release over the history of the Unix list."""
    found: dict[str, set[str]] = {}
    for known in _lines(body, _UNIX):
        channel = _CHANNELS.get(known[2]) if known[1] == "current" else "unix-legacy"
        if channel and RELEASE.fullmatch(known[3]) and (known[1] == "current" or known[2] == "official"):
            found.setdefault(known[3], set()).add(channel)
    return {release: sorted(names) for release, names in found.items()}


def bundled(body: Body) -> dict[tuple[str, str], str]:
    """The newest CUDA whose installer has each driver, by release and system."""
    found: dict[tuple[str, str], str] = {}
    for known in _lines(body, _INSTALLER):
        place = known[2], "linux" if known[3] == "linux" else "windows"
        found[place] = max(found.get(place, "0"), known[1], key=numbers)
    return found


def latest(body: Body) -> dict[tuple[str, str], str]:
    """The day of each release that was the latest of its branch in the data-centre list, by release and system."""
    return {(known[3], known[2]): _day(body, known[4]) for known in _lines(body, _LATEST)}
