"""The wheels of TensorRT on the package index: the whole ones up to 8.6, and since then bindings and lean runtimes.

The libraries of newer releases are on an index of NVIDIA's own: rows are confirmed here, and a person adds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from update.record import Body, Found, Given, Row, refuse
from update.sources.index import WheelFile, project_of, wheels_of

HAND_OUT = "the project's page of the index, asked for as application/vnd.pypi.simple.v1+json"
_WHOLE = ("nvidia-tensorrt", "tensorrt")
_BINDINGS = tuple(f"tensorrt-cu{cuda}-bindings" for cuda in ("12", "13"))
_LEAN = "tensorrt-lean-cu13-libs"
PROJECTS = (*_WHOLE, *_BINDINGS, _LEAN)

_LONGER = {"8.6.0": "8.6.0.12", "10.0.1": "10.0.1.6"}
"""The releases of wheels whose number lacks the last part."""

_FOR_CUDA_12 = frozenset({"8.6.0"})
"""Whole wheels whose CUDA the facts know; the index does not say it."""


def rows(bodies: Sequence[Body]) -> Given:
    """The wheels of every page for Linux; packages that only fetch others, and previews, are passed over."""
    return Given(tuple(Found("tensorrt-archives", "archives", row) for body in bodies for row in _rows(body)))


def _rows(body: Body) -> Iterator[Row]:
    project = project_of(body)
    if project not in PROJECTS:
        raise refuse(body.address, "is the page of a project that the facts do not use")
    for one in wheels_of(body):
        is_of_linux = one.platform in {"linux-x86_64", "linux-aarch64"} and one.glibc
        if is_of_linux and ".dev" not in one.version and not one.is_yanked:
            yield _row(project, one)


def _row(project: str, one: WheelFile) -> Row:
    row: Row = {"component": "tensorrt", "version": _LONGER.get(one.version, one.version)}
    row |= {"platform": one.platform.replace("aarch64", "sbsa"), "method": "pip", "part": project}
    if project not in _WHOLE or one.version in _FOR_CUDA_12:
        row["cuda"] = "13" if "-cu13" in project else "12"
    row |= {"file": one.file, "sha256": one.sha256, "size": one.size, "wheel_version": one.version}
    if project != _LEAN:
        row["python"] = one.python
    is_dated = project not in _BINDINGS
    return {**row, **({"date": one.day} if is_dated else {}), "src": ["pypi" if is_dated else "pypi_bindings"]}
