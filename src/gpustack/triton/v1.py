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
    """The content of /api/status. ``models`` maps a model to its versions and the state of each.

    ``reasons`` says why a model is unavailable, from 20.01 on; ``counts`` are its inferences: successes and failures.
    """

    id: str = ""
    version: str = ""
    state: str = ""
    models: dict[str, dict[int, str]] = {}
    reasons: dict[str, str] = {}
    counts: dict[str, tuple[int, int]] = {}

    def unready(self) -> str:
        """The versions that are not ready, with the server's reasons, as a part of a sentence; "" without one."""
        return "; ".join(
            f"{name}, version {number} is {state}{f': {self.reasons[name]}' if name in self.reasons else ''}"
            for name, versions in self.models.items()
            for number, state in versions.items()
            if state != "MODEL_READY"
        )


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
    reasons: dict[str, str] = {}
    counts: dict[str, tuple[int, int]] = {}
    for entry in message.get("model_status", []):
        value = first(entry, "value") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(value, dict):
            continue
        name = str(first(entry, "key"))
        models[name] = _versions(value)
        states = [one for _, one in _entries(value, "version_status")]
        why = next((str(_at(one, "ready_state_reason", "message") or "") for one in states), "")
        if why:
            reasons[name] = why
        batches = [one for state in states for _, one in _entries(state, "infer_stats")]
        counts[name] = (_total(batches, "success"), _total(batches, "failed"))
    return ServerStatus(
        id=str(first(message, "id") or ""),
        version=str(first(message, "version") or ""),
        state=str(first(message, "ready_state") or ""),
        models=models,
        reasons=reasons,
        counts=counts,
    )


def _entries(value: Message, field: str) -> list[tuple[int, Message]]:
    """The keys and values of a map whose keys are numbers."""
    found = [(first(entry, "key"), first(entry, "value")) for entry in value.get(field, []) if isinstance(entry, dict)]
    return [(int(str(key or 0)), one if isinstance(one, dict) else {}) for key, one in found]


def _versions(value: Message) -> dict[int, str]:
    return {number: str(first(one, "ready_state") or "") for number, one in _entries(value, "version_status")}


def _at(message: Message, field: str, inner: str) -> object:
    nested = first(message, field)
    return first(nested, inner) if isinstance(nested, dict) else None


def _total(batches: list[Message], field: str) -> int:
    return sum(count for count in (_at(one, field, "count") for one in batches) if isinstance(count, int))


def described(answer: Answer) -> Message:
    """The InferResponseHeader of a response: a header from 19.03 on, before that the end of the body."""
    text = answer.headers.get("nv-inferresponse", "")
    if not text:
        begin = answer.body.rfind(b"model_name:")
        text = answer.body[begin:].decode("utf-8", "replace") if begin >= 0 else ""
    try:
        return parse(text)
    except ValueError:
        return {}


def classes(answer: Answer) -> list[tuple[int, str]]:
    """The classes in a response that was asked for them, most probable first: number and label."""
    output = first(described(answer), "output")
    batch = first(output, "batch_classes") if isinstance(output, dict) else None
    rows = batch.get("cls", []) if isinstance(batch, dict) else []
    return [(int(str(first(one, "idx") or 0)), str(first(one, "label") or "")) for one in rows if isinstance(one, dict)]


def code(answer: Answer) -> str:
    """The code in the NV-Status header: SUCCESS, or an error."""
    match = _STATUS.search(answer.headers.get("nv-status", ""))
    return match[1] if match else ""


class Request(Struct, frozen=True, kw_only=True):
    """What is asked of a model: the names of its input and output, and the output's ``length``.

    ``number`` is the version of the model, 0 for the latest. With ``top``, that many most probable classes are
    returned instead of the output.
    """

    model: str
    name: str
    output: str
    length: int
    number: int = 0
    top: int = 0


def infer(server: Server, request: Request, values: list[float]) -> Answer:
    """Infer with raw 32-bit floats.

    Servers of the beta require the sizes of both tensors, later ones do not support that field: where one form is
    rejected, the other is sent.
    """
    answer = _inferred(server, request, values, is_sized=False)
    if answer.is_ok or code(answer) != "INVALID_ARG":
        return answer
    second = _inferred(server, request, values, is_sized=True)
    return second if second.is_ok else answer


def _inferred(server: Server, request: Request, values: list[float], *, is_sized: bool) -> Answer:
    given, wanted = (f" byte_size: {4 * count}" if is_sized else "" for count in (len(values), request.length))
    form = f" cls {{ count: {request.top} }}" if request.top else ""
    header = (
        f'batch_size: 1 input {{ name: "{request.name}"{given} }} output {{ name: "{request.output}"{wanted}{form} }}'
    )
    path = f"/api/infer/{escaped(request.model)}" + (f"/{request.number}" if request.number else "")
    body = struct.pack(f"<{len(values)}f", *values)
    headers = {"NV-InferRequest": header, "Content-Type": "application/octet-stream"}
    return server.post(path, body, headers)


def output(answer: Answer, count: int) -> list[float] | None:
    """The first ``count`` floats of the response's body, where the outputs precede the header at its end."""
    if len(answer.body) < count * 4:
        return None
    return list(struct.unpack_from(f"<{count}f", answer.body))
