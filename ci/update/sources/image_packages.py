"""The packages that Dockerfiles of NVIDIA's CUDA images pin by version."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_PINNED = re.compile(r"(lib(?:cudnn|nccl)[a-z0-9-]*?)[=-](\d+(?:\.\d+)+)-+\d+(?:[.+]cuda(\d+\.\d+))?")
_REFERENCE = re.compile(r"\$\{?(\w+)\}?")
_SETTING = re.compile(r"ENV (NV_\w+)[ =](.+)")
_NAMES = ("NV_CUDNN_PACKAGE", "NV_CUDNN_PACKAGE_DEV", "NV_LIBNCCL_PACKAGE", "NV_LIBNCCL_DEV_PACKAGE")
_DEPTH = 3
"""How many settings a setting may refer to, one through the other."""


class Place(NamedTuple):
    """An image by the folders of its Dockerfile: its CUDA, its system, and the last folder, which its tag names."""

    image: str
    system: str
    tag: str


class Pinned(NamedTuple):
    """A package that an image installs: of which build, from which folder of the vendor's repository."""

    component: str
    name: str
    version: str
    cuda: str
    kind: str
    folder: str
    image: str
    system: str
    tag: str
    arch: str


def settings(stage: str) -> dict[str, str]:
    """What a stage sets, with what it refers to filled in."""
    found = {known[1]: known[2].strip('"') for line in stage.splitlines() if (known := _SETTING.fullmatch(line))}
    for _ in range(_DEPTH):
        found = {name: _filled(text, found) for name, text in found.items()}
    return found


def _filled(text: str, known: dict[str, str]) -> str:
    return _REFERENCE.sub(lambda at: known.get(at[1], at[0]), text)


def pinned(stage: str, place: Place, folder: str, arch: str) -> Iterator[Pinned]:
    """The packages that one stage pins with their version."""
    set_by = settings(stage)
    for name in _NAMES:
        if known := _PINNED.fullmatch(set_by.get(name, "")):
            component = "nccl" if "NCCL" in name else "cudnn"
            kind = "apt" if "=" in set_by[name] else "rpm"
            yield Pinned(component, known[1], known[2], known[3] or "", kind, folder, *place, arch)


def named(content: str) -> Iterator[Pinned]:
    """The packages that a script or list names with their version; it says nothing of the folder."""
    for word in content.split():
        if (known := _PINNED.fullmatch(word)) and known[3]:
            component = "nccl" if "nccl" in known[1] else "cudnn"
            kind = "apt" if "=" in word else "rpm"
            yield Pinned(component, known[1], known[2], known[3], kind, *[""] * 5)
