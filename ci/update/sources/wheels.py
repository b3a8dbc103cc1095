"""The wheels of cuDNN, NCCL and TensorRT-RTX on the package index, with sums and tags."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from update.record import Body, Found, Given, Row, refuse
from update.sources.index import WheelFile, project_of, wheels_of

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
