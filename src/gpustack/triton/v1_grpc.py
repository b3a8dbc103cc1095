"""The v1 protocol in binary form, over gRPC, by NVIDIA's grpc_service.proto of 18.11 to 20.03."""

from __future__ import annotations

import struct

import msgspec
from msgspec import Struct

from gpustack.triton.client import Server, escaped
from gpustack.triton.v1 import ServerStatus
from gpustack.triton.wire import bytes_of, decoded, encoded, messages_of, number_of

_SERVICE = "/nvidia.inferenceserver.GRPCService/"
_SUCCESS, _INVALID_ARG = 1, 5
_CODES = ("INVALID", "SUCCESS", "UNKNOWN", "INTERNAL", "NOT_FOUND", "INVALID_ARG", "UNAVAILABLE", "UNSUPPORTED")
_SERVER_STATES = {0: "SERVER_INVALID", 1: "SERVER_INITIALIZING", 2: "SERVER_READY", 3: "SERVER_EXITING"}
_MODEL_STATES = ("MODEL_UNKNOWN", "MODEL_READY", "MODEL_UNAVAILABLE", "MODEL_LOADING", "MODEL_UNLOADING")


class Reply(Struct, frozen=True, kw_only=True):
    """The response to a call. ``fault`` says why it failed, ``code`` is RequestStatus' (0 without one).

    ``is_served`` is false where the server has no such service: those of before 18.11 have another.
    """

    body: bytes = b""
    code: int = 0
    fault: str = ""
    is_served: bool = True


def is_installed() -> bool:
    """Whether the Python package grpcio is there."""
    try:
        import grpc  # noqa: F401, PLC0415 (only where a v1 server is tested)
    except ImportError:
        return False
    return True


def healthy(server: Server, mode: str) -> Reply:
    """Ask whether the server is "live" or "ready"; a denial is a fault."""
    reply = _call(server, "Health", encoded(1, mode))
    if reply.fault or number_of(decoded(reply.body), 2):
        return reply
    return msgspec.structs.replace(reply, fault=f"the server is not {mode}")


def status(server: Server, model: str = "") -> ServerStatus | Reply:
    """The server's status, of one model if specified; the reply itself where it has none."""
    reply = _call(server, "Status", encoded(1, model) if model else b"")
    if reply.fault:
        return reply
    try:
        return read_binary_status(bytes_of(decoded(reply.body), 2))
    except ValueError as exc:
        return Reply(fault=f"its status cannot be read: {exc}")


def status_over_http(server: Server, model: str) -> ServerStatus | Reply:
    """The status of a model in the same form over HTTP."""
    answer = server.get(f"/api/status/{escaped(model)}?format=binary")
    try:
        return read_binary_status(answer.body) if answer.is_ok else Reply(fault=answer.why)
    except ValueError as exc:
        return Reply(fault=f"its status cannot be read: {exc}")


def infer(server: Server, model: str, request: tuple[str, str, int], values: list[float]) -> list[float] | Reply:
    """Infer with raw 32-bit floats; ``request`` is the input's name, the output's name, and the output's length.

    Servers of 18.11 to 19.02 require the sizes of both tensors, later ones have other fields of that number.
    """
    reply = _inferred(server, model, request, values, is_sized=False)
    if reply.code == _INVALID_ARG:
        second = _inferred(server, model, request, values, is_sized=True)
        reply = reply if second.fault else second
    if reply.fault:
        return reply
    raw = bytes_of(decoded(reply.body), 3)
    length = request[2]
    if len(raw) != 4 * length:
        return Reply(fault=f"the response has {len(raw)} bytes instead of {4 * length}")
    return list(struct.unpack(f"<{length}f", raw))


def _inferred(
    server: Server, model: str, request: tuple[str, str, int], values: list[float], *, is_sized: bool
) -> Reply:
    name, output, length = request
    given, wanted = (encoded(2, 4 * count) if is_sized else b"" for count in (len(values), length))
    header = encoded(1, 1) + encoded(2, encoded(1, name) + given) + encoded(3, encoded(1, output) + wanted)
    raw = struct.pack(f"<{len(values)}f", *values)
    return _call(server, "Infer", encoded(1, model) + encoded(3, header) + encoded(4, raw), 3 * server.patience_s)


def _call(server: Server, method: str, body: bytes, timeout: float | None = None) -> Reply:
    """One call; every response has a RequestStatus as its first field."""
    import grpc  # noqa: PLC0415 (see is_installed)

    with grpc.insecure_channel(server.grpc.address) as channel:
        ask = channel.unary_unary(_SERVICE + method)
        try:
            data = bytes(ask(body, timeout=timeout or server.patience_s))
            said = decoded(bytes_of(decoded(data), 1))
        except grpc.RpcError as exc:
            is_served = exc.code() is not grpc.StatusCode.UNIMPLEMENTED
            return Reply(fault=f"{method} failed: {exc.details()}", is_served=is_served)
        except ValueError as exc:
            return Reply(fault=f"the response to {method} cannot be read: {exc}")
    code = number_of(said, 1)
    if code != _SUCCESS:
        words = bytes_of(said, 2).decode("utf-8", "replace")
        name = _CODES[code] if code < len(_CODES) else str(code)
        return Reply(code=code, fault=f"{method} failed: {name}{': ' if words else ''}{words}")
    return Reply(body=data, code=code)


def read_binary_status(data: bytes) -> ServerStatus:
    """Read a ServerStatus, as gRPC and /api/status?format=binary send it. Raises ValueError where it is not one."""
    message = decoded(data)
    models: dict[str, dict[int, str]] = {}
    reasons: dict[str, str] = {}
    for entry in messages_of(message, 4):
        name = bytes_of(entry, 1).decode("utf-8", "replace")
        models[name] = {}
        for version in messages_of(decoded(bytes_of(entry, 2)), 2):
            one = decoded(bytes_of(version, 2))
            state = number_of(one, 1)
            models[name][number_of(version, 1)] = _MODEL_STATES[state] if state < len(_MODEL_STATES) else str(state)
            reason = bytes_of(decoded(bytes_of(one, 5)), 1).decode("utf-8", "replace")
            if reason:
                reasons[name] = reason
    return ServerStatus(
        id=bytes_of(message, 1).decode("utf-8", "replace"),
        version=bytes_of(message, 2).decode("utf-8", "replace"),
        state=_SERVER_STATES.get(number_of(message, 7), ""),
        models=models,
        reasons=reasons,
    )
