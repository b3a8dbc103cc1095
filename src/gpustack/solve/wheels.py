"""Wheels: which files of the package index bring a component, and on which systems they load."""

from __future__ import annotations

from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.patterns import late
from gpustack.versions import version

SUBJECT = "wheels"
_ALSO = {"tensorrt": "tensorrt-archives"}
"""Subjects that hold the wheels of a component beside its other archives."""

_WHOLE = {"tensorrt": ("tensorrt", "nvidia-tensorrt")}
"""Projects that bring the whole component, where others bring a part of it only."""

_TAG = late(r"manylinux_(\d+)_(\d+)_")
_OLD_TAGS = {"manylinux1_": "2.5", "manylinux2010_": "2.12", "manylinux2014_": "2.17"}


class Wheel(Struct, frozen=True, kw_only=True):
    """One wheel. ``part`` is its project, ``python`` the tag of its interpreters, ``glibc`` the oldest to load it."""

    version: str
    platform: str
    file: str
    wheel_version: str = ""
    component: str = ""
    method: str = ""
    part: str = ""
    cuda: str = ""
    sha256: str = ""
    size: int | None = None
    python: str = ""
    glibc: str = ""
    requires: tuple[str, ...] = ()
    src: tuple[str, ...] = ()

    @property
    def needs_glibc(self) -> str:
        """The oldest C library that loads it, by the facts, else by the file's tags; "" where neither says."""
        if self.glibc:
            return self.glibc
        found = [f"{major}.{minor}" for major, minor in _TAG.findall(self.file)]
        found += [text for tag, text in _OLD_TAGS.items() if tag in self.file]
        return min(found, key=lambda text: version(text).key, default="")

    @property
    def has_old_tag(self) -> bool:
        """Whether a pip before 20.3, which knows none of the tags with a C library in them, takes it."""
        return any(tag in self.file for tag in _OLD_TAGS)

    def loads_with(self, glibc: str | None) -> bool:
        """Whether a system with this C library loads it; yes where the system's is not known."""
        return not glibc or not self.needs_glibc or version(self.needs_glibc) <= version(glibc)


def wheels(matrix: Matrix, component: str, platform: str) -> tuple[Wheel, ...]:
    """The wheels that bring all of a component, each with its sha256; no project that fetches others is among them."""
    rows = matrix.rows(SUBJECT, "archives", Wheel)
    if component in _ALSO:
        rows += matrix.rows(_ALSO[component], "archives", Wheel)
    whole = _WHOLE.get(component)
    return tuple(
        row
        for row in rows
        if row.component == component
        and row.method == "pip"
        and row.platform == platform
        and row.sha256
        and (whole is None or row.part in whole)
    )
