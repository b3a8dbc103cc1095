"""The wheels of CUDA, cuDNN, NCCL and TensorRT-RTX on the package index, with sums and tags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from update.record import Body, Found, Given, Row, refuse
from update.sources.digests import digest_of
from update.sources.index import WheelFile, project_of, wheels_of
from update.sources.toolkit_wheels import PARTS, PLATFORMS, row_of, toolkits

HAND_OUT = "the project's page of the index, asked for as application/vnd.pypi.simple.v1+json"


class Project(NamedTuple):
    """Of which component a project has the wheels, for which CUDA. The rows of some are uploads alone."""

    component: str
    cuda: str
    has_archives: bool = True


PROJECTS = {
    **{f"nvidia-cudnn-cu{cuda}": Project("cudnn", cuda) for cuda in ("11", "12", "13")},
    **{f"nvidia-cudnn-jit-cu{cuda}": Project("cudnn", cuda, has_archives=False) for cuda in ("12", "13")},
    **{f"nvidia-nccl-cu{cuda}": Project("nccl", cuda) for cuda in ("11", "12", "13")},
    **{
        f"tensorrt-rtx-cu{cuda}-{part}": Project("tensorrt-rtx", cuda)
        for cuda in ("12", "13")
        for part in ("bindings", "libs")
    },
    **{part: Project("cuda", "") for parts in PARTS.values() for part in parts},
}

_SRC = {"cudnn": "cudnn", "nccl": "nccl", "tensorrt-rtx": "rtx"}
_RELEASES = {"cudnn": "pypi", "nccl": "pypi"}
"""Components whose wheels carry the number of the release, and the source of such a release row."""

_UPLOADED = {
    **{f"linux-{machine}": f"linux-{machine}" for machine in ("x86_64", "aarch64")},
    "windows-x86_64": "win-amd64",
    "windows-aarch64": "win-arm64",
}


def rows(bodies: Sequence[Body]) -> Given:
    """The wheels for Linux of every project's page; previews are passed over."""
    pages = {project_of(body): wheels_of(body) for body in bodies if body.address.endswith("/")}
    read = map(digest_of, (body for body in bodies if not body.address.endswith("/")))
    requires = {name: found["requires"] for name, found in read}
    if unknown := set(pages) - set(PROJECTS):
        raise refuse(", ".join(sorted(unknown)), "is the page of a project that the facts do not use")
    offered = {name: list(filter(_is_offered, wheels)) for name, wheels in pages.items()}
    found = [Found("wheels", "archives", row) for row in _archives(offered, requires)]
    found += [Found("wheels", "archives", row) for row in toolkits(offered, requires)]
    found += _releases(offered)
    found += [Found("cudnn", "pip_versions", row) for name in pages for row in _uploads(name, pages[name])]
    nccl = (name for name in pages if PROJECTS[name].component == "nccl")
    found += [Found("nccl", "wheels", row) for name in nccl for row in _versions(name, offered[name])]
    return Given(tuple(found), tuple(_covers(pages)))


def _covers(pages: Iterable[str]) -> Iterator[tuple[str, str, Row]]:
    """Every wheel of a project belongs to a release of its component, but not every one to a release of CUDA."""
    for name in pages:
        if src := _SRC.get(PROJECTS[name].component):
            yield "wheels", "archives", {"part": name, "src": [src]}


def _is_offered(one: WheelFile) -> bool:
    is_known = one.platform in PLATFORMS and one.glibc and one.abi == "none"
    return bool(is_known) and ".dev" not in one.version and not one.is_yanked


def _archives(pages: Mapping[str, list[WheelFile]], requires: Mapping[str, list[str]]) -> Iterator[Row]:
    for name, wheels in pages.items():
        about = PROJECTS[name]
        for one in wheels if about.has_archives and about.component in _SRC else ():
            names = {re.split(r"[^a-z0-9-]", line, maxsplit=1)[0] for line in requires.get(one.file, ())}
            row: Row = {"component": about.component, "version": _release_of(one), "cuda": about.cuda, **row_of(one)}
            yield {**row, **({"requires": sorted(names)} if names else {}), "src": [_SRC[about.component]]}


def _releases(pages: Mapping[str, list[WheelFile]]) -> list[Found]:
    days: dict[tuple[str, str], str] = {}
    for name, wheels in pages.items():
        about = PROJECTS[name]
        for one in wheels if about.has_archives and about.component in _RELEASES else ():
            release = about.component, _release_of(one)
            days[release] = min(one.day, days.get(release, one.day))
    return [
        Found(component, "releases", {"version": release, "date": day, "src": [_RELEASES[component]]})
        for (component, release), day in days.items()
    ]


def _uploads(project: str, wheels: Iterable[WheelFile]) -> Iterator[Row]:
    """When each version of cuDNN's wheels appeared, and for which platforms."""
    versions: dict[str, list[WheelFile]] = {}
    for one in wheels if PROJECTS[project].component == "cudnn" else ():
        if one.platform in _UPLOADED and ".dev" not in one.version:
            versions.setdefault(one.version, []).append(one)
    for version, files in versions.items():
        row: Row = {"project": project, "version": version, "date": min(one.day for one in files)}
        row["platforms"] = sorted({_UPLOADED[one.platform] for one in files})
        sizes = [one.size for one in files if one.platform == "linux-x86_64"]
        row |= {"size": sizes[0]} if sizes else {}
        yield {**row, **({"yanked": "true"} if all(one.is_yanked for one in files) else {}), "src": ["pypi"]}


def _versions(project: str, wheels: Sequence[WheelFile]) -> Iterator[Row]:
    """The day on which each version of a project's wheels appeared."""
    days = {one.version: one.day for one in sorted(wheels, key=lambda one: one.day, reverse=True)}
    return ({"project": project, "version": one, "date": day, "src": ["pypi"]} for one, day in days.items())


def _release_of(wheel: WheelFile) -> str:
    return re.sub(r"\.post\d+$", "", wheel.version)
