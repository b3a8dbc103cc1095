"""Project pages of the package index in their JSON form: the wheels of a component, with sums and tags.

``of_wheel`` reads one file; the readers of frameworks use it too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from update.form import DATE, SHA256, WORD, json_of, keys, listing, mapping, text
from update.record import Body, Found, Given, Row, refuse

HAND_OUT = "the project's page of the index, asked for as application/vnd.pypi.simple.v1+json"


class Project(NamedTuple):
    """Of which component a project has the wheels, for which CUDA."""

    component: str
    cuda: str


PROJECTS = {
    "nvidia-cudnn-cu11": Project("cudnn", "11"),
    "nvidia-cudnn-cu12": Project("cudnn", "12"),
    "nvidia-cudnn-cu13": Project("cudnn", "13"),
    "nvidia-nccl-cu11": Project("nccl", "11"),
    "nvidia-nccl-cu12": Project("nccl", "12"),
    "nvidia-nccl-cu13": Project("nccl", "13"),
    "tensorrt-rtx-cu12-bindings": Project("tensorrt-rtx", "12"),
    "tensorrt-rtx-cu13-bindings": Project("tensorrt-rtx", "13"),
    "tensorrt-rtx-cu12-libs": Project("tensorrt-rtx", "12"),
    "tensorrt-rtx-cu13-libs": Project("tensorrt-rtx", "13"),
}

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


def rows(bodies: Sequence[Body]) -> Given:
    """The wheels for Linux of every project's page; previews are passed over."""
    found: list[Found] = []
    covers: list[tuple[str, str, Row]] = []
    days: dict[tuple[str, str, str], str] = {}
    for body in bodies:
        name = project_of(body)
        if name not in PROJECTS:
            raise refuse(body.address, "is the page of a project that the facts do not use")
        about = PROJECTS[name]
        covers.append(("wheels", "archives", {"part": name, "src": [_SRC[about.component]]}))
        wheels = [one for one in wheels_of(body) if one.glibc and ".dev" not in one.version]
        found += [Found("wheels", "archives", _row(name, about, one)) for one in wheels]
        if src := _RELEASES.get(about.component):
            for one in wheels:
                release = _release_of(one)
                days[about.component, release, src] = min(one.day, days.get((about.component, release, src), one.day))
    found += [
        Found(component, "releases", {"version": release, "date": day, "src": [src]})
        for (component, release, src), day in days.items()
    ]
    return Given(tuple(found), tuple(covers))


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


def _release_of(wheel: WheelFile) -> str:
    return re.sub(r"\.post\d+$", "", wheel.version)


def _row(project: str, about: Project, wheel: WheelFile) -> Row:
    found: Row = {"component": about.component, "version": _release_of(wheel)}
    found |= {"platform": wheel.platform, "method": "pip", "part": project, "cuda": about.cuda, "file": wheel.file}
    found |= {"sha256": wheel.sha256, "wheel_version": wheel.version, "python": wheel.python}
    return {**found, **({"glibc": wheel.glibc} if wheel.glibc else {}), "src": [_SRC[about.component]]}


_RELEASES = {"cudnn": "pypi", "nccl": "pypi"}
"""Components whose wheels carry the number of the release, and the source of such a release row."""

_SRC = {"cudnn": "cudnn", "nccl": "nccl", "tensorrt-rtx": "rtx"}
