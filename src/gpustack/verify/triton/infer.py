"""One inference with a known output, over HTTP and gRPC."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from gpustack.triton import v2
from gpustack.triton.client import Answer, Server
from gpustack.verify.tensorrt.digits_engine import TOLERANCE
from gpustack.verify.tensorrt.onnx import INPUT, OUTPUT, load_digits
from gpustack.verify.triton.endpoint import DIGITS, DOUBLE

_FLOATS = {"FP32", "FP64", "FP16"}
_WHOLE = {"INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "BOOL"}
_LARGEST = 1 << 20


class Tried(Struct, frozen=True, kw_only=True):
    """How an inference ended: ``fault`` is empty on success; ``said`` is what was verified.

    ``skipped`` says why the model was not tested.
    """

    said: str = ""
    fault: str = ""
    skipped: str = ""
    seconds: float = 0.0


class Sample(Struct, frozen=True, kw_only=True):
    """An input and the expected output, None where it is not known."""

    tensor: tuple[str, str, tuple[int, ...]]
    values: list[float]
    output: str
    expected: list[float] | None = None


def make_sample(model: v2.Model) -> Sample | str:
    """The input for ``model``; the reason for its absence, as a sentence."""
    if not model.inputs or not model.outputs:
        return "its metadata has no inputs or no outputs"
    name, datatype, shape = model.inputs[0]
    whole = tuple(1 if length < 0 else length for length in shape)
    if model.name == DIGITS:
        digits = load_digits()
        values = [pixel / 255 for pixel in digits.pictures[0]]
        expected = list(digits.probabilities[0])
        return Sample(tensor=(INPUT, "FP32", (1, 1, 28, 28)), values=values, output=OUTPUT, expected=expected)
    if len(model.inputs) > 1:
        return f"it has {len(model.inputs)} inputs, for which no correct output is known"
    count = 1
    for length in whole:
        count *= length
    if count > _LARGEST or datatype not in _FLOATS | _WHOLE:
        return f"its input is {datatype} of shape {list(shape)}, which is not tested"
    values = [float(number % 7) if datatype in _FLOATS else number % 2 for number in range(count)]
    known = [2 * value for value in values] if model.name == DOUBLE else None
    return Sample(tensor=(name, datatype, whole), values=values, output=model.outputs[0][0], expected=known)


def infer_over_v2(server: Server, model: str, clock: Callable[[], float]) -> Tried:
    """Infer over HTTP, and over gRPC if tritonclient is installed, with an input by the model's metadata."""
    described = v2.describe(server, model)
    if isinstance(described, Answer):
        return Tried(fault=f"its metadata could not be read: {described.why}")
    ask = make_sample(described)
    if not isinstance(ask, Sample):
        return Tried(skipped=ask)
    tried = infer_over_http(server, model, ask, clock)
    by_grpc = None if tried.fault else infer_over_grpc(server, model, ask)
    if tried.fault or (by_grpc is not None and by_grpc.fault):
        return by_grpc or tried
    also = by_grpc.said if by_grpc else "gRPC was not tested: the Python package tritonclient is not installed"
    return Tried(said=f"{tried.said}; {also}", seconds=tried.seconds)


def infer_over_http(server: Server, model: str, ask: Sample, clock: Callable[[], float]) -> Tried:
    """Infer over HTTP and check the output."""
    started = clock()
    answer = v2.infer(server, model, ask.tensor, ask.values)
    seconds = clock() - started
    if not answer.is_ok:
        return Tried(fault=f"the inference failed: {answer.why}", seconds=seconds)
    got = v2.output(answer, ask.output)
    if got is None:
        return Tried(fault=f"the response has no output {ask.output}", seconds=seconds)
    return check_output(got, ask, seconds, "HTTP")


def check_output(got: list[float], ask: Sample, seconds: float, by: str) -> Tried:
    """Compare an output with the expected one."""
    if ask.expected is None:
        if not all(value == value for value in got):  # noqa: PLR0124 (NaN alone differs from itself)
            return Tried(fault="the output contains NaN", seconds=seconds)
        return Tried(said=f"{by}: {len(got)} values; the correct output of this model is unknown", seconds=seconds)
    if len(got) != len(ask.expected):
        return Tried(fault=f"the output has {len(got)} values instead of {len(ask.expected)}", seconds=seconds)
    worst = max((abs(a - b) for a, b in zip(got, ask.expected, strict=True)), default=0.0)
    if not worst <= TOLERANCE:
        return Tried(fault=f"the output is wrong: {_shown(got)} instead of {_shown(ask.expected)}", seconds=seconds)
    return Tried(said=f"{by}: correct output", seconds=seconds)


def _shown(values: list[float]) -> str:
    return "[" + ", ".join(f"{value:.4g}" for value in values[:4]) + (", ...]" if len(values) > 4 else "]")


def infer_over_grpc(server: Server, model: str, ask: Sample) -> Tried | None:
    """Infer over gRPC if tritonclient is installed; None if it is not."""
    try:
        import numpy  # noqa: ICN001, PLC0415 (only installed with tritonclient)
        from tritonclient import grpc  # noqa: PLC0415
    except (ImportError, RuntimeError):  # tritonclient without its grpc extra raises RuntimeError
        return None
    types = {"FP32": "float32", "FP64": "float64", "FP16": "float16", "BOOL": "bool"}
    name, datatype, shape = ask.tensor
    if not server.is_direct:
        return Tried(said="gRPC was not tested: its port is unknown behind a proxy")
    client = grpc.InferenceServerClient(server.grpc.address)
    try:
        given = grpc.InferInput(name, list(shape), datatype)
        kind = types.get(datatype, datatype.lower())
        given.set_data_from_numpy(numpy.array(ask.values, dtype=kind).reshape(shape))
        answer = client.infer(model, [given], client_timeout=30).as_numpy(ask.output)
    except Exception as exc:  # noqa: BLE001 (whatever tritonclient and grpc raise is a failure)
        return Tried(fault=f"the inference over gRPC at {server.grpc.address} failed: {exc}")
    finally:
        client.close()
    if answer is None:
        return Tried(fault=f"the response over gRPC has no output {ask.output}")
    return check_output([float(value) for value in answer.flatten()], ask, 0.0, "gRPC")
