"""Described Jetsons: by their JetPack, by their Jetson Linux, or by the name of their module."""

from __future__ import annotations

from collections.abc import Iterable

from gpustack.errors import UnsupportedError, UsageError
from gpustack.matrix.index import Matrix
from gpustack.model.host import Gpu
from gpustack.model.places import covers
from gpustack.versions import version_key

_WORD = "jetpack"


def as_l4t(text: str, matrix: Matrix) -> str:
    """``--os jetpack6.2`` as the Jetson Linux of that JetPack ("l4t36.4.3"); every other text unchanged."""
    if not text.lower().startswith(_WORD):
        return text
    asked = text.lower().removeprefix(_WORD).lstrip(" _-")
    found = [row for row in matrix.jetpacks if row.jetpack == asked] or [
        row for row in matrix.jetpacks if covers(asked, row.jetpack)
    ]
    if asked and found:
        return f"l4t{max(found, key=lambda row: version_key(row.l4t)).l4t}"
    known = ", ".join(row.jetpack for row in sorted(matrix.jetpacks, key=lambda row: version_key(row.jetpack)))
    msg = f"unknown release: JetPack {asked}" if asked else "JetPack without a release"
    raise UnsupportedError(msg, code="unknown-system", where="--os", hint=f"known: {known}")


def newest_l4t(version: str, matrix: Matrix) -> str:
    """The newest known Jetson Linux of a line ("36" is 36.5.0); an unknown version unchanged."""
    known = [release for row in matrix.jetpacks for release in (row.l4t, *row.also) if covers(version, release)]
    return max(known, key=version_key, default=version)


def is_board(gpu: Gpu) -> bool:
    """Whether a GPU is that of a Jetson module, whose driver is part of Jetson Linux."""
    return (gpu.name or "").lower().startswith("jetson")


def demand_supported(release: str, gpus: Iterable[Gpu], matrix: Matrix) -> None:
    """Refuse a module that this Jetson Linux does not support. Raises UsageError naming the newest JetPack for it."""
    row = next((row for row in matrix.jetpacks if release in {row.l4t, *row.also}), None)
    for gpu in gpus:
        capability = gpu.compute_capability
        if row is None or not is_board(gpu) or capability is None or capability in row.capabilities:
            continue
        fitting = [one for one in matrix.jetpacks if capability in one.capabilities]
        newest = max(fitting, key=lambda one: version_key(one.l4t), default=None)
        msg = f"{gpu.called} is no module of JetPack {row.jetpack} (Jetson Linux {release})"
        hint = f"the newest for it: --os jetpack{newest.jetpack}" if newest else "no JetPack for it is known"
        raise UsageError(msg, code="impossible-host", where="--gpu", hint=hint)
