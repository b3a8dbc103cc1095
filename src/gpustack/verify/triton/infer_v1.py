"""Inferences by the v1 protocol with the digits network: over HTTP, as classes, and over gRPC."""

from __future__ import annotations

from collections.abc import Callable

from gpustack.triton import v1, v1_grpc
from gpustack.triton.client import Answer, Server
from gpustack.triton.pbtxt import first
from gpustack.verify.tensorrt.onnx import INPUT, OUTPUT, load_digits
from gpustack.verify.triton.infer import Sample, Tried, check_output

_DIGITS = 10


def infer_over_v1(server: Server, model: str, clock: Callable[[], float]) -> Tried:
    """Infer by the v1 protocol with a model of the digits network."""
    digits = load_digits()
    values = [pixel / 255 for pixel in digits.pictures[0]]
    expected = list(digits.probabilities[0])
    ask = Sample(tensor=(INPUT, "FP32", (1, 1, 28, 28)), values=values, output=OUTPUT, expected=expected)
    status = v1.status(server, model)
    numbers = [] if isinstance(status, Answer) else [*status.models.get(model, {})]
    tried = _once(server, model, ask, clock, 0)
    if tried.fault:
        return tried
    if numbers:
        again = _once(server, model, ask, clock, max(numbers))
        if again.fault:
            return Tried(fault=f"version {max(numbers)} by its number: {again.fault}")
    fault = _classified(server, model, ask)
    if fault:
        return Tried(fault=fault)
    by_grpc = _over_grpc(server, model, ask)
    return by_grpc if by_grpc.fault else Tried(said=f"{tried.said}; {by_grpc.said}", seconds=tried.seconds)


def _once(server: Server, model: str, ask: Sample, clock: Callable[[], float], number: int) -> Tried:
    """One inference over HTTP, of the version ``number``; 0 for the latest."""
    request = v1.Request(model=model, name=INPUT, output=OUTPUT, length=_DIGITS, number=number)
    started = clock()
    answer = v1.infer(server, request, ask.values)
    seconds = clock() - started
    if not answer.is_ok or v1.code(answer) not in {"SUCCESS", ""}:
        return Tried(fault=f"the inference failed: {_reason(answer)}", seconds=seconds)
    got = v1.output(answer, _DIGITS)
    if got is None:
        return Tried(fault="the response is shorter than its output", seconds=seconds)
    named = first(v1.described(answer), "model_name")
    if named != model:
        return Tried(fault=f"the response describes the model {named} instead of {model}", seconds=seconds)
    return check_output(got, ask, seconds, "HTTP (v1)")


def _reason(answer: Answer) -> str:
    return answer.headers.get("nv-status") or answer.why


def _classified(server: Server, model: str, ask: Sample) -> str:
    """What is wrong with the most probable classes of the same image; "" if nothing is."""
    request = v1.Request(model=model, name=INPUT, output=OUTPUT, length=_DIGITS, top=3)
    answer = v1.infer(server, request, ask.values)
    if not answer.is_ok or v1.code(answer) not in {"SUCCESS", ""}:
        return f"the request for its classes failed: {_reason(answer)}"
    expected = ask.expected or []
    best = max(range(len(expected)), key=expected.__getitem__)
    found = v1.classes(answer)
    if [number for number, _ in found[:1]] != [best]:
        listed = ", ".join(str(number) for number, _ in found) or "none"
        return f"the most probable classes are wrong: {listed} instead of {best} first"
    return ""


def _over_grpc(server: Server, model: str, ask: Sample) -> Tried:
    """Health, status and inference over gRPC, if the Python package grpcio is installed."""
    if not v1_grpc.is_installed():
        return Tried(said="gRPC was not tested: the Python package grpcio is not installed")
    if not server.is_direct:
        return Tried(said="gRPC was not tested: its port is unknown behind a proxy")
    place = f"gRPC at {server.grpc.address}"
    for mode in ("live", "ready"):
        health = v1_grpc.healthy(server, mode)
        if not health.is_served:
            return Tried(said="gRPC was not tested: this server has no GRPCService, which came with 18.11")
        if health.fault:
            return Tried(fault=f"{place}: {health.fault}")
    fault = _wrong_status(server, model)
    if fault:
        return Tried(fault=f"{place}: {fault}")
    got = v1_grpc.infer(server, model, (INPUT, OUTPUT, _DIGITS), ask.values)
    if isinstance(got, v1_grpc.Reply):
        return Tried(fault=f"{place}: {got.fault}")
    return check_output(got, ask, 0.0, "gRPC (v1)")


def _wrong_status(server: Server, model: str) -> str:
    """What is wrong with the status over gRPC, and in the same form over HTTP; "" if nothing is."""
    status, other = v1_grpc.status(server, model), v1_grpc.status_over_http(server, model)
    if isinstance(status, v1_grpc.Reply):
        return status.fault
    if "MODEL_READY" not in status.models.get(model, {}).values():
        return f"the status does not list {model} as ready"
    if isinstance(other, v1_grpc.Reply) or other.models != status.models:
        return f"the status differs from /api/status/{model}?format=binary"
    return ""
