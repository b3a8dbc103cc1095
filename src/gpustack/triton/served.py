"""The TensorRT that writes a serialization version, and the TensorRT of a Triton release, by the matrix."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.triton.engine import Engine


class ImageContents(Struct, frozen=True, kw_only=True):
    """The contents of a Triton image."""

    version: str = ""
    tensorrt: str = ""


def tensorrt_of_triton(matrix: Matrix, release: str) -> str | None:
    """The TensorRT in the image of ``release`` ("25.03"); None where it is unknown."""
    rows = [row for row in matrix.rows("triton", "releases", ImageContents) if row.version == release]
    return next((row.tensorrt for row in rows if row.tensorrt), None)


class Serialization(Struct, frozen=True, kw_only=True):
    """A serialization version, and the releases of TensorRT that write it, as "8.5"."""

    number: int
    release: str


def with_version(matrix: Matrix, engine: Engine) -> Engine:
    """``engine`` with the TensorRT version of its serialization, where its header has none."""
    if engine.version or not engine.serialization:
        return engine
    rows = matrix.rows("tensorrt-tools", "serializations", Serialization)
    known = next((row.release for row in rows if row.number == engine.serialization), "")
    return msgspec.structs.replace(engine, version=known)
