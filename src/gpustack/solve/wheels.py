"""Wheels: which files of the package index bring a component, and on which systems they load."""

from __future__ import annotations

from gpustack.matrix.index import Matrix
from gpustack.model.offer import Wheel

SUBJECT = "wheels"
_ALSO = {"tensorrt": "tensorrt-archives"}
"""Subjects that hold the wheels of a component beside its other archives."""

_WHOLE = {"tensorrt": ("tensorrt", "nvidia-tensorrt")}
"""Projects that bring the whole component, where others bring a part of it only."""


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
