"""The digits network as an ONNX file, in protobuf's wire format, without the onnx package."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from importlib.resources import files

from msgspec import Struct

IR_VERSION = 7
OPSET = 13
"""Every TensorRT from 8.0 on and TensorRT-RTX support both."""

INPUT, OUTPUT = "input", "probabilities"
_FLOAT = 1
_KINDS = {"float32": 1, "float16": 10}
_INT, _INTS = 2, 7
_PRODUCER = "gpustack"


class Tensor(Struct, frozen=True, kw_only=True):
    """One weight: 32-bit floats, little-endian, row by row."""

    name: str
    shape: tuple[int, ...]
    data: bytes


class Digits(Struct, frozen=True, kw_only=True):
    """The network that recognizes digits, images for it, and the outputs of a reference for them."""

    weights: dict[str, Tensor]
    pictures: tuple[bytes, ...]
    labels: tuple[int, ...]
    probabilities: tuple[tuple[float, ...], ...]


def load_digits() -> Digits:
    """The network and the images that are part of gpustack."""
    folder = files("gpustack.verify") / "samples" / "digits"
    network = json.loads((folder / "network.json").read_text(encoding="utf-8"))
    values = (folder / "network.f32").read_bytes()
    pixels = (folder / "pictures.u8").read_bytes()
    weights = {}
    for row in network["tensors"]:
        count = 1
        for length in row["shape"]:
            count *= length
        begin = row["offset"] * 4
        weights[row["name"]] = Tensor(
            name=row["name"], shape=tuple(row["shape"]), data=values[begin : begin + count * 4]
        )
    size = 28 * 28
    return Digits(
        weights=weights,
        pictures=tuple(pixels[place : place + size] for place in range(0, len(pixels), size)),
        labels=tuple(network["digits"]),
        probabilities=tuple(tuple(row) for row in network["probabilities"]),
    )


def digits_model(weights: dict[str, Tensor], batch: int = 1) -> bytes:
    """The ONNX file of the digits network for ``batch`` images at once: (batch, 1, 28, 28) to (batch, 10)."""
    conv = (("kernel_shape", (5, 5)),)
    pool = (("kernel_shape", (2, 2)), ("strides", (2, 2)))
    nodes = (
        _node("Conv", (INPUT, "conv1.weight", "conv1.bias"), "c1", conv),
        _node("MaxPool", ("c1",), "p1", pool),
        _node("Relu", ("p1",), "r1"),
        _node("Conv", ("r1", "conv2.weight", "conv2.bias"), "c2", conv),
        _node("MaxPool", ("c2",), "p2", pool),
        _node("Relu", ("p2",), "r2"),
        _node("Flatten", ("r2",), "flat", (("axis", 1),)),
        _node("Gemm", ("flat", "dense1.weight", "dense1.bias"), "d1", (("transB", 1),)),
        _node("Relu", ("d1",), "r3"),
        _node("Gemm", ("r3", "dense2.weight", "dense2.bias"), "d2", (("transB", 1),)),
        _node("Softmax", ("d2",), OUTPUT, (("axis", 1),)),
    )
    # The dense layers are stored as convolutions over the rest of the image; here they are matrices.
    flat = {name: (one.shape[0], _product(one.shape[1:])) for name, one in weights.items() if "dense" in name}
    initial = [
        _tensor(one.name, flat[one.name] if len(one.shape) > 1 and one.name in flat else one.shape, one.data)
        for one in weights.values()
    ]
    graph = b"".join(
        (
            *(_bytes(1, node) for node in nodes),
            _text(2, "digits"),
            *(_bytes(5, one) for one in initial),
            _bytes(11, _value(INPUT, (batch, 1, 28, 28))),
            _bytes(12, _value(OUTPUT, (batch, 10))),
        )
    )
    return _model(graph)


def square_model(kind: str, length: int) -> bytes:
    """The ONNX file of a square matrix times itself: ``input`` to ``probabilities``, in float32 or float16."""
    shape = (length, length)
    graph = b"".join((
        _bytes(1, _node("MatMul", (INPUT, INPUT), OUTPUT)),
        _text(2, "square"),
        _bytes(11, _value(INPUT, shape, _KINDS[kind])),
        _bytes(12, _value(OUTPUT, shape, _KINDS[kind])),
    ))  # fmt: skip
    return _model(graph)


def _model(graph: bytes) -> bytes:
    opset = _bytes(8, _number(2, OPSET))
    return b"".join((_number(1, IR_VERSION), _text(2, _PRODUCER), _bytes(7, graph), opset))


def _product(lengths: Iterable[int]) -> int:
    total = 1
    for one in lengths:
        total *= one
    return total


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _node(
    kind: str, takes: Sequence[str], makes: str, attributes: Sequence[tuple[str, int | tuple[int, ...]]] = ()
) -> bytes:
    parts = [_text(1, one) for one in takes]
    parts += [_text(2, makes), _text(3, makes), _text(4, kind)]
    for name, value in attributes:
        if isinstance(value, int):
            field = _text(1, name) + _number(3, value) + _number(20, _INT)
        else:
            field = _text(1, name) + b"".join(_number(8, one) for one in value) + _number(20, _INTS)
        parts.append(_bytes(5, field))
    return b"".join(parts)


def _tensor(name: str, shape: Sequence[int], data: bytes) -> bytes:
    dims = b"".join(_number(1, length) for length in shape)
    return dims + _number(2, _FLOAT) + _text(8, name) + _bytes(9, data)


def _value(name: str, shape: Sequence[int], kind: int = _FLOAT) -> bytes:
    dims = b"".join(_bytes(1, _number(1, length)) for length in shape)
    tensor = _number(1, kind) + _bytes(2, dims)
    return _text(1, name) + _bytes(2, _bytes(1, tensor))
