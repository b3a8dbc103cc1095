"""The server under test, its protocol, and the model for the test inference."""

from __future__ import annotations

from msgspec import Struct

from gpustack.triton import v1, v2
from gpustack.triton.client import Answer, Server, server_at
from gpustack.verify.declare import Context

DIGITS, DOUBLE = "gpustack_digits", "gpustack_double"
"""Gpustack's own models, whose correct outputs are known: the digits network, and doubling numbers."""


class Endpoint(Struct, frozen=True, kw_only=True):
    """A server with its protocol: "v2", "v1", or "" where it supports neither."""

    server: Server
    protocol: str
    why: str = ""


def find_endpoint(context: Context) -> Endpoint | None:
    """The server of ``--url``; None without one. Its protocol is detected once."""
    url = context.given.get("url")
    if not url:
        return None

    def find() -> Endpoint:
        return detect_protocol(server_at(url))

    return context.shared.once("triton server", find)


def detect_protocol(server: Server) -> Endpoint:
    """Detect the protocol of a server: v2 first, the only one since 20.06."""
    answer = v2.metadata(server)
    if answer.status == 0:
        return Endpoint(server=server, protocol="", why=answer.why)
    if isinstance(answer.json(), dict) and answer.is_ok:
        return Endpoint(server=server, protocol="v2")
    if answer.status >= 300 and v2.live(server).is_ok:  # servers may restrict access to some of the API
        return Endpoint(server=server, protocol="v2")
    old = v1.live(server)
    status = v1.status(server)
    if v1.code(old) or (not isinstance(status, Answer) and status.state):
        return Endpoint(server=server, protocol="v1")
    return Endpoint(
        server=server,
        protocol="",
        why=f"{server.url} responds, but supports neither v2 (/v2: {answer.why}) nor v1 (/api: {old.why})",
    )


class Choice(Struct, frozen=True, kw_only=True):
    """The model under test; ``why`` is the reason for its absence."""

    model: str = ""
    why: str = ""


def choose_model(context: Context, found: Endpoint) -> Choice:
    """The model that the user specified, else one of gpustack's own, else the first that is ready."""
    given = context.given.get("model")
    if given:
        return Choice(model=given)
    names = ready_models(found)
    if isinstance(names, Answer):
        return Choice(why=names.why)
    own = next((one for one in (DIGITS, DOUBLE) if one in names), None)
    if own or names:
        return Choice(model=own or names[0])
    return Choice(why="no model of the server is ready")


def ready_models(found: Endpoint) -> tuple[str, ...] | Answer:
    """The models that are ready on the server."""
    if found.protocol == "v2":
        rows = v2.index(found.server)
        return tuple(str(row["name"]) for row in rows if row.get("state") == "READY" and "name" in row)
    status = v1.status(found.server)
    if isinstance(status, Answer):
        return status
    return tuple(name for name, versions in status.models.items() if "MODEL_READY" in versions.values())
