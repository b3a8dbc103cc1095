"""What an ONNX file takes: names and shapes of its inputs, read from protobuf's wire format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

Shape = tuple[int | None, ...]
"""Lengths; None where the network leaves one open."""


class Input(Struct, frozen=True, kw_only=True):
    """One input. ``shape`` is None where even its rank is open; ``least`` and ``most`` are an engine's limits."""

    name: str
    shape: Shape | None = None
    least: tuple[int, ...] = ()
    most: tuple[int, ...] = ()


class Network(Struct, frozen=True, kw_only=True):
    """An ONNX file. ``is_quantized``: it contains the nodes that say how int8 and fp8 are scaled."""

    inputs: tuple[Input, ...]
    is_quantized: bool


_GRAPH, _NODE, _INITIALIZER, _INPUT = 7, 1, 5, 11
_OPERATOR, _WEIGHT_NAME = 4, 8


def read_network(path: Path) -> Network:
    """Read the file. Raises OSError where it cannot be read, ValueError where it is not a whole ONNX model."""
    graph = dict(_fields(memoryview(path.read_bytes()))).get(_GRAPH)
    if graph is None or isinstance(graph, int):
        msg = "the file is not an ONNX model, or is damaged: it has no graph"
        raise ValueError(msg)
    found: list[Input] = []
    weights: set[str] = set()
    is_quantized = False
    for field, part in _fields(graph):
        if not isinstance(part, memoryview):
            continue
        if field == _NODE:
            is_quantized = is_quantized or _text(part, _OPERATOR) == "QuantizeLinear"
        elif field == _INITIALIZER:
            weights.add(_text(part, _WEIGHT_NAME))
        elif field == _INPUT:
            found.append(Input(name=_text(part, 1), shape=_shape(part)))
    inputs = tuple(one for one in found if one.name not in weights)
    if not inputs:
        msg = "its graph has no input"
        raise ValueError(msg)
    return Network(inputs=inputs, is_quantized=is_quantized)


def _shape(value: memoryview) -> Shape | None:
    """The shape in a ValueInfoProto: type (2), tensor type (1), shape (2), dimensions (1), value (1)."""
    kind = _message(value, 2)
    tensor = None if kind is None else _message(kind, 1)
    shape = None if tensor is None else _message(tensor, 2)
    if shape is None:
        return None
    return tuple(_length(part) for field, part in _fields(shape) if field == 1 and isinstance(part, memoryview))


def _message(data: memoryview, number: int) -> memoryview | None:
    """The first field ``number`` that has a length."""
    return next((part for field, part in _fields(data) if field == number and isinstance(part, memoryview)), None)


def _length(dimension: memoryview) -> int | None:
    value = next((part for field, part in _fields(dimension) if field == 1 and isinstance(part, int)), 0)
    return value if 0 < value < 1 << 40 else None


def _text(message: memoryview, number: int) -> str:
    return bytes(_message(message, number) or b"").decode("utf-8", "replace")


_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a message: whole numbers, and what has a length. Raises ValueError where it is not a message."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        field, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, place = _varint(data, place)
            yield field, value
            continue
        if wire == _BYTES:
            length, begin = _varint(data, place)
        elif wire in {_EIGHT, _FOUR}:
            length, begin = 8 if wire == _EIGHT else 4, place
        else:
            length, begin = 0, -1
        place = begin + length
        if field == 0 or begin < 0 or place > len(data):
            msg = "the file is not an ONNX model, or is damaged"
            raise ValueError(msg)
        if wire == _BYTES:
            yield field, data[begin:place]


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    value = 0
    for step in range(10):
        if place + step >= len(data):
            break
        byte = data[place + step]
        value |= (byte & 0x7F) << 7 * step
        if byte < 0x80:
            return value, place + step + 1
    msg = "the file is not an ONNX model, or is damaged"
    raise ValueError(msg)
