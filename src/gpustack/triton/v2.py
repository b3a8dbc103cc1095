"""The KServe v2 protocol over HTTP, which Triton supports since 20.03."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from gpustack.triton.client import Answer, Server, escaped

METRICS = ("nv_inference_request_success", "nv_inference_count", "nv_inference_exec_count")
"""Counters that every server with a model has, with or without a GPU."""


class Model(Struct, frozen=True, kw_only=True):
    """A model's metadata: inputs and outputs as (name, datatype, shape)."""

    name: str
    versions: tuple[str, ...] = ()
    platform: str = ""
    inputs: tuple[tuple[str, str, tuple[int, ...]], ...] = ()
    outputs: tuple[tuple[str, str, tuple[int, ...]], ...] = ()


def live(server: Server, *, timeout: float | None = None) -> Answer:
    return server.get("/v2/health/live", timeout=timeout)


def ready(server: Server, *, timeout: float | None = None) -> Answer:
    return server.get("/v2/health/ready", timeout=timeout)


def model_ready(server: Server, model: str) -> Answer:
    return server.get(f"/v2/models/{escaped(model)}/ready")


def metadata(server: Server) -> Answer:
    return server.get("/v2")


def server_version(server: Server) -> str:
    """The server's version; "" where it does not report one."""
    found = metadata(server).json()
    return str(found.get("version", "")) if isinstance(found, dict) else ""


def statistics(server: Server, model: str) -> Answer:
    return server.get(f"/v2/models/{escaped(model)}/stats")


def index(server: Server) -> tuple[dict[str, Any], ...]:
    """The models of the server's repository with their states; () where the server does not report them."""
    rows = server.post("/v2/repository/index").json()
    return tuple(row for row in rows if isinstance(row, dict)) if isinstance(rows, list) else ()


def describe(server: Server, model: str) -> Model | Answer:
    """The metadata of ``model``, or the response that says why it could not be read."""
    answer = server.get(f"/v2/models/{escaped(model)}")
    found = answer.json()
    if not answer.is_ok or not isinstance(found, dict):
        return answer
    return Model(
        name=str(found.get("name", "")),
        versions=tuple(str(one) for one in listed) if isinstance(listed := found.get("versions"), list) else (),
        platform=str(found.get("platform", "")),
        inputs=_tensors(found.get("inputs")),
        outputs=_tensors(found.get("outputs")),
    )


def _tensors(rows: Any) -> tuple[tuple[str, str, tuple[int, ...]], ...]:  # noqa: ANN401 (what a server sends)
    if not isinstance(rows, list):
        return ()
    return tuple(
        (str(row.get("name", "")), str(row.get("datatype", "")), tuple(shape))
        for row in rows
        if isinstance(row, dict) and isinstance(shape := row.get("shape"), list) and all(map(_is_length, shape))
    )


def _is_length(value: object) -> bool:
    return isinstance(value, int) and -1 <= value <= 1 << 31


def number_at(row: object, *path: str) -> int:
    """The whole number at the end of ``path`` in a server's JSON; 0 without one."""
    for name in path:
        row = row.get(name) if isinstance(row, dict) else None
    return row if isinstance(row, int) else 0


def infer(server: Server, model: str, tensor: tuple[str, str, tuple[int, ...]], values: list[float]) -> Answer:
    """Infer with one input: ``tensor`` is its name, datatype and whole shape."""
    name, datatype, shape = tensor
    request = {"inputs": [{"name": name, "datatype": datatype, "shape": list(shape), "data": values}]}
    return server.post(
        f"/v2/models/{escaped(model)}/infer",
        json.dumps(request).encode(),
        {"Content-Type": "application/json"},
    )


def output(answer: Answer, name: str) -> list[float] | None:
    """The values of the output ``name`` in the response to an inference; None without it."""
    found = answer.json()
    if not isinstance(found, dict):
        return None
    rows = found.get("outputs")
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and row.get("name") == name and isinstance(row.get("data"), list):
            try:
                return [float(value) for value in row["data"]]
            except (TypeError, ValueError):
                return None
    return None


def counters(text: str) -> dict[str, float]:
    """The values of a page of metrics in Prometheus text, summed over labels."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        name, _, value = line.rpartition(" ")
        try:
            number = float(value)
        except ValueError:
            continue
        key = name.partition("{")[0]
        found[key] = found.get(key, 0.0) + number
    return found
