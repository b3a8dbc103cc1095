"""The v1 protocol, from the 0.5 beta of 2018 to 20.03: health, status and inference below /api."""

from __future__ import annotations

import re
import struct

from msgspec import Struct

from gpustack.triton.client import Answer, Server, escaped
from gpustack.triton.pbtxt import Message, first, parse
from gpustack.versions import version

_STATUS = re.compile(r"code: ?\"?(\w+)")


class ServerStatus(Struct, frozen=True, kw_only=True):
    """The content of /api/status. ``models`` maps a model to its versions and the state of each."""

    id: str = ""
    version: str = ""
    state: str = ""
    models: dict[str, dict[int, str]] = {}


def live_means_loaded(release: str | None) -> bool:
    """Whether a server of ``release`` is live only once its models are loaded, and ready as soon as it answers.

    This applies to the 0.5 beta (18.10 and before; --strict-liveness); 18.11 and later do the reverse. The version in
    the status does not decide: the beta's versions reach 1.1, and so do those of 2019.
    """
    return release is not None and version(release) < version("18.11")


def live(server: Server) -> Answer:
    return server.get("/api/health/live")


def ready(server: Server) -> Answer:
    return server.get("/api/health/ready")


def status(server: Server, model: str = "") -> ServerStatus | Answer:
    """The server's status, of one model if specified; the response itself where it has none."""
    path = f"/api/status/{escaped(model)}" if model else "/api/status"
    answer = server.get(path)
    if not answer.is_ok:
        return answer
    try:
        return read_status(answer.text)
    except ValueError as exc:
        return Answer(status=answer.status, headers=answer.headers, error=f"its status cannot be read: {exc}")


def read_status(text: str) -> ServerStatus:
    """Read the text protobuf of /api/status. Raises ValueError where it is not one."""
    message = parse(text)
    models: dict[str, dict[int, str]] = {}
    for entry in message.get("model_status", []):
        if not isinstance(entry, dict):
            continue
        value = first(entry, "value")
        if not isinstance(value, dict):
            continue
        models[str(first(entry, "key"))] = _versions(value)
    return ServerStatus(
        id=str(first(message, "id") or ""),
        version=str(first(message, "version") or ""),
        state=str(first(message, "ready_state") or ""),
        models=models,
    )


def _versions(value: Message) -> dict[int, str]:
    found: dict[int, str] = {}
    for entry in value.get("version_status", []):
        if isinstance(entry, dict):
            state = first(entry, "value")
            ready_state = first(state, "ready_state") if isinstance(state, dict) else ""
            found[int(str(first(entry, "key") or 0))] = str(ready_state or "")
    return found


def code(answer: Answer) -> str:
    """The code in the NV-Status header: SUCCESS, or an error."""
    match = _STATUS.search(answer.headers.get("nv-status", ""))
    return match[1] if match else ""


def infer(server: Server, model: str, request: tuple[str, str, int], values: list[float], number: int = 0) -> Answer:
    """Infer with raw 32-bit floats: ``request`` is the input's name, the output's name, and the output's length.

    ``number`` is the version of the model, 0 for the latest. Servers of the beta require the sizes of both tensors,
    later ones do not support that field: where one form is rejected, the other is sent.
    """
    answer = _inferred(server, model, request, values, number, is_sized=False)
    if answer.is_ok or code(answer) != "INVALID_ARG":
        return answer
    second = _inferred(server, model, request, values, number, is_sized=True)
    return second if second.is_ok else answer


def _inferred(  # noqa: PLR0913 (a request has these parts)
    server: Server, model: str, request: tuple[str, str, int], values: list[float], number: int, *, is_sized: bool
) -> Answer:
    name, output_name, length = request
    given, wanted = (f" byte_size: {4 * count}" if is_sized else "" for count in (len(values), length))
    header = f'batch_size: 1 input {{ name: "{name}"{given} }} output {{ name: "{output_name}"{wanted} }}'
    path = f"/api/infer/{escaped(model)}" + (f"/{number}" if number else "")
    body = struct.pack(f"<{len(values)}f", *values)
    headers = {"NV-InferRequest": header, "Content-Type": "application/octet-stream"}
    return server.post(path, body, headers)


def output(answer: Answer, count: int) -> list[float] | None:
    """The first ``count`` floats of the response's body, where the outputs precede the header at its end."""
    if len(answer.body) < count * 4:
        return None
    return list(struct.unpack_from(f"<{count}f", answer.body))
