"""The TensorRT inside a Triton release."""

from __future__ import annotations

from msgspec import Struct

from gpustack.matrix.index import Matrix


class ServerImage(Struct, frozen=True, kw_only=True):
    """What a Triton image holds."""

    version: str = ""
    tensorrt: str = ""


def tensorrt_of_triton(matrix: Matrix, release: str) -> str | None:
    """The TensorRT in the image of ``release`` ("25.03"); None where no fact tells it."""
    rows = [row for row in matrix.rows("triton", "releases", ServerImage) if row.version == release]
    return next((row.tensorrt for row in rows if row.tensorrt), None)
