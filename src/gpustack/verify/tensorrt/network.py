"""What to measure of the user's own network: its file, shapes, precisions and calibration, before any GPU is used."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpustack.errors import UsageError
from gpustack.triton.engine import read_engine
from gpustack.verify.tensorrt.onnx_inputs import Input, Network, Shape, read_network
from gpustack.versions import version

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "int8", "fp8")
BATCHES_OF_LIMIT = (1, 8, 32, 64, 128)
"""Batch sizes that are tried under a latency limit, if none are given and the network leaves them open."""
_ALGORITHMS = ("EntropyCalibration", "EntropyCalibration2", "MinMaxCalibration")
_CACHE = re.compile(r"TRT-\d+-(\w+)\s")
_RANK_LIMIT = 8


class Asked(Struct, frozen=True, kw_only=True):
    """What to measure: ``onnx`` or ``engine``. In ``shapes`` None stands for the batch size; no ``batches`` is one."""

    onnx: Path | None = None
    engine: Path | None = None
    shapes: dict[str, Shape] = {}
    batches: tuple[int, ...] = ()
    streams: tuple[int, ...] = (1,)
    precisions: tuple[str, ...] = ()
    calibration: Path | None = None
    with_graphs: bool = False
    with_layers: bool = False
    limit_ms: float | None = None
    warm_up_ms: int = 200
    seconds: int = 3
    iterations: int = 10

    @property
    def graphs(self) -> tuple[bool, ...]:
        return (False, True) if self.with_graphs else (False,)


class Scales(Struct, frozen=True, kw_only=True):
    """Where int8 gets its scales: TensorRT's cache of an ``algorithm``, or the ``ranges`` of tensors."""

    path: Path
    algorithm: str = ""
    ranges: dict[str, float] = {}


def offered(release: str, *, is_rtx: bool = False) -> tuple[str, ...]:
    """The precisions of a release's builder: from 11 on, and in RTX, all but TF32 are part of the network itself."""
    number = version(release)
    if is_rtx or number >= version("11"):
        return ("fp32", "tf32")
    since = {"tf32": "7.1", "bf16": "9", "fp8": "8.6"}
    return tuple(one for one in PRECISIONS if number >= version(since.get(one, "5")))


def chosen_precisions(asked: Asked, network: Network | None, available: tuple[str, ...]) -> tuple[str, ...]:
    """The requested precisions, or all that the network has scales for. Raises UsageError for the others."""
    is_quantized = network is not None and network.is_quantized
    if not asked.precisions:
        has_scales = is_quantized or asked.calibration is not None
        return tuple(
            one for one in available if one in {"fp32", "tf32", "fp16", "bf16"} or (one == "int8" and has_scales)
        )
    needs = {"int8": is_quantized or asked.calibration is not None, "fp8": is_quantized}
    for one in asked.precisions:
        if not needs.get(one, True):
            option = "--calibration FILE, or " if one == "int8" else ""
            msg = f"{one} requires scales, and the network has no QuantizeLinear nodes"
            raise UsageError(msg, code="invalid-value", where="--precision", hint=f"give {option}a quantized network")
    return asked.precisions


def parse_precisions(text: str) -> tuple[str, ...]:
    """The precisions of a list such as "fp32,fp16". Raises UsageError for an unknown name."""
    named = tuple(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))
    unknown = [one for one in named if one not in PRECISIONS]
    if unknown:
        msg = f"unknown precision {unknown[0]!r}"
        raise UsageError(msg, code="invalid-value", where="--precision", hint=f"known: {', '.join(PRECISIONS)}")
    return named


def parse_shapes(texts: Iterable[str]) -> dict[str, Shape]:
    """Shapes such as "in:1x3x224x224" or "in:Nx3x224x224". Raises UsageError for other texts."""
    found: dict[str, Shape] = {}
    for text in texts:
        name, _, rest = text.rpartition(":")
        lengths = rest.split("x")
        is_shape = all(one == "N" or (re.fullmatch("[0-9]{1,9}", one) and int(one) > 0) for one in lengths)
        if not name or not is_shape or len(lengths) > _RANK_LIMIT or name in found:
            why = f"names {name} again" if name in found else "is not a shape"
            msg = f"{text!r} {why}"
            raise _shape_error(msg, "for example --shapes input:1x3x224x224; N is the batch size")
        found[name] = tuple(None if one == "N" else int(one) for one in lengths)
    return found


def _shape_error(message: str, hint: str) -> UsageError:
    return UsageError(message, code="invalid-value", where="--shapes", hint=hint)


def read_file(asked: Asked) -> Network | None:
    """What the ONNX file takes, None for an engine. Raises UsageError for a file that is not what the option says."""
    path, option = (asked.onnx, "--onnx") if asked.onnx is not None else (asked.engine, "--engine")
    assert path is not None  # noqa: S101 (one of both is there)
    try:
        if asked.onnx is not None:
            read = read_engine(path)
            if read.kind:
                msg = f"{path} is an {read.called}, not an ONNX file"
                raise UsageError(msg, code="invalid-model", where=option, hint="give it with --engine")
            return read_network(path)
        fault = read_engine(path).fault
    except OSError as exc:
        msg = f"{path} cannot be read: {exc.strerror or exc}"
        raise UsageError(msg, code="invalid-model", where=option, hint="give an existing, readable file") from exc
    except ValueError as exc:
        msg = f"{path}: {exc}"
        raise UsageError(msg, code="invalid-model", where=option, hint="export or copy the ONNX file again") from exc
    if fault:
        msg = f"{path}: {fault}"
        raise UsageError(msg, code="invalid-model", where=option, hint="build the engine again on this host")
    return None


def read_scales(path: Path | None) -> Scales | None:
    """The scales in a calibration cache of TensorRT, or in JSON the range of each tensor. Raises UsageError."""
    if path is None:
        return None
    hint = 'give a cache that TensorRT wrote (its first line is like TRT-8601-EntropyCalibration2), or {"tensor": 2.5}'
    try:
        text = path.read_text(encoding="utf-8")
        ranges = json.loads(text) if text.lstrip().startswith("{") else None
    except OSError as exc:
        msg = f"{path} cannot be read: {exc.strerror or exc}"
        raise UsageError(msg, code="invalid-value", where="--calibration", hint=hint) from exc
    except ValueError as exc:
        msg = f"{path} is not a calibration: {exc}"
        raise UsageError(msg, code="invalid-value", where="--calibration", hint=hint) from exc
    if ranges and all(_is_range(one) for one in ranges.values()):
        return Scales(path=path.resolve(), ranges=ranges)
    match = _CACHE.match(text)
    if match is None or match[1] not in _ALGORITHMS:
        msg = f"{path} is neither a calibration cache nor a list of ranges"
        raise UsageError(msg, code="invalid-value", where="--calibration", hint=hint)
    return Scales(path=path.resolve(), algorithm=match[1])


def _is_range(value: Any) -> bool:  # noqa: ANN401 (of a JSON document)
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


class Case(Struct, frozen=True, kw_only=True):
    """One set of shapes; ``batch`` is the first length of the first input. ``open`` are those the file leaves open."""

    batch: int
    shapes: dict[str, tuple[int, ...]]
    open: frozenset[str] = frozenset()

    def words(self) -> str:
        """The shapes that the network leaves open, as trtexec takes them."""
        return ",".join(f"{name}:{'x'.join(map(str, self.shapes[name]))}" for name in sorted(self.open))


def cases_of(asked: Asked, inputs: tuple[Input, ...]) -> tuple[Case, ...]:
    """Every set of shapes to measure. Raises UsageError where a shape does not fit the network."""
    unknown = [name for name in asked.shapes if name not in {one.name for one in inputs}]
    if unknown:
        names = ", ".join(_called(one) for one in inputs)
        msg = f"the network has no input {unknown[0]!r}"
        raise _shape_error(msg, f"its inputs: {names}")
    forms = {one.name: _form(one, asked.shapes.get(one.name)) for one in inputs}
    has_batch = any(None in form for form in forms.values())
    if asked.batches and not has_batch:
        fixed = ", ".join(_called(one) for one in inputs)
        msg = "no input leaves its batch size open"
        raise UsageError(msg, code="invalid-value", where="--batch", hint=f"do not give --batch; the inputs: {fixed}")
    batches = asked.batches or (BATCHES_OF_LIMIT if has_batch and asked.limit_ms is not None else (1,))
    found = []
    for batch in batches:
        shapes = {name: tuple(batch if one is None else one for one in form) for name, form in forms.items()}
        for one in inputs:
            _demand_limits(one, shapes[one.name])
        first = next(iter(shapes.values()))
        is_open = frozenset(one.name for one in inputs if one.shape is None or None in one.shape)
        found.append(Case(batch=first[0] if first else 1, shapes=shapes, open=is_open))
    return tuple(found)


def _form(one: Input, given: Shape | None) -> Shape:
    """The shape of an input, with None for the batch size."""
    hint = f"give --shapes {one.name}:" + "x".join(
        "N" if not place else str(length or 224) for place, length in enumerate(one.shape or (1, 3, 224, 224))
    )
    if given is None:
        if one.shape is None or None in one.shape[1:]:
            msg = f"the network leaves lengths of {_called(one)} open"
            raise _shape_error(msg, f"for example {hint}")
        return one.shape
    if one.shape is None:
        return given
    wrong = len(given) != len(one.shape) or any(
        fixed is not None and length != fixed for fixed, length in zip(one.shape, given, strict=False)
    )
    if wrong:
        told = "x".join("N" if length is None else str(length) for length in given)
        msg = f"{told} does not fit the network's {_called(one)}"
        raise _shape_error(msg, f"for example {hint}")
    return given


def _demand_limits(one: Input, shape: tuple[int, ...]) -> None:
    if one.most and not all(a <= b <= c for a, b, c in zip(one.least, shape, one.most, strict=True)):
        least, told, most = ("x".join(map(str, lengths)) for lengths in (one.least, shape, one.most))
        msg = f"{told} is not from {least} to {most}"
        raise _shape_error(msg, f"the engine was built for these limits of {one.name}")


def _called(one: Input) -> str:
    if one.shape is None:
        return f"{one.name} (any shape)"
    return f"{one.name}:{'x'.join('?' if length is None else str(length) for length in one.shape)}"
