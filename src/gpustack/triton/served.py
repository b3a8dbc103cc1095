"""What the facts tell of an engine and of a server: the TensorRT that writes a serialization, that of a Triton."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.triton.engine import Engine


class ServerImage(Struct, frozen=True, kw_only=True):
    """What a Triton image holds."""

    version: str = ""
    tensorrt: str = ""


def tensorrt_of_triton(matrix: Matrix, release: str) -> str | None:
    """The TensorRT in the image of ``release`` ("25.03"); None where no fact tells it."""
    rows = [row for row in matrix.rows("triton", "releases", ServerImage) if row.version == release]
    return next((row.tensorrt for row in rows if row.tensorrt), None)


class Serialization(Struct, frozen=True, kw_only=True):
    """The number of a serialization, and the releases of TensorRT that write it, as "8.5"."""

    number: int
    release: str


def named(matrix: Matrix, engine: Engine) -> Engine:
    """``engine`` with the version that its serialization tells, where its header holds none."""
    if engine.version or not engine.serialization:
        return engine
    rows = matrix.rows("tensorrt-tools", "serializations", Serialization)
    known = next((row.release for row in rows if row.number == engine.serialization), "")
    return msgspec.structs.replace(engine, version=known)
