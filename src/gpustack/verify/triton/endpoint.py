"""The server that is asked, the protocol it speaks, and the model that an inference is tried with."""

from __future__ import annotations

from msgspec import Struct

from gpustack.triton import v1, v2
from gpustack.triton.client import Answer, Server, server_at
from gpustack.verify.declare import Context

DIGITS, DOUBLE = "gpustack_digits", "gpustack_double"
"""Models that gpustack itself lays out, whose right answers are known: the digits network, and doubling numbers."""


class Asked(Struct, frozen=True, kw_only=True):
    """A server with the protocol that it answers to: "v2", "v1", or "" where it answers to neither."""

    server: Server
    protocol: str
    why: str = ""


def asked(context: Context) -> Asked | None:
    """The server of ``--url``; None where none was named. Found out once."""
    url = context.given.get("url")
    if not url:
        return None

    def find() -> Asked:
        return protocol_of(server_at(url))

    return context.shared.once("triton server", find)


def protocol_of(server: Server) -> Asked:
    """Ask a server which protocol it speaks: v2 first, as every server since 20.06 speaks no other."""
    answer = v2.metadata(server)
    if answer.status == 0:
        return Asked(server=server, protocol="", why=answer.why)
    if isinstance(answer.json(), dict) and answer.is_ok:
        return Asked(server=server, protocol="v2")
    if answer.status >= 300 and v2.live(server).is_ok:  # servers may keep some of the API to themselves
        return Asked(server=server, protocol="v2")
    old = v1.live(server)
    status = v1.status(server)
    if v1.code(old) or (not isinstance(status, Answer) and status.state):
        return Asked(server=server, protocol="v1")
    return Asked(
        server=server,
        protocol="",
        why=f"{server.url} answers, but neither as v2 (/v2: {answer.why}) nor as v1 (/api: {old.why})",
    )


class Choice(Struct, frozen=True, kw_only=True):
    """The model that is tried, with the versions that are ready; ``why`` says why there is none."""

    model: str = ""
    why: str = ""


def model_of(context: Context, found: Asked) -> Choice:
    """The model that the user named, else one of gpustack's own, else the first that is ready."""
    given = context.given.get("model")
    if given:
        return Choice(model=given)
    names = ready_models(found)
    if isinstance(names, Answer):
        return Choice(why=names.why)
    own = next((one for one in (DIGITS, DOUBLE) if one in names), None)
    if own or names:
        return Choice(model=own or names[0])
    return Choice(why="the server has no model that is ready")


def ready_models(found: Asked) -> tuple[str, ...] | Answer:
    """The models that the server has ready."""
    if found.protocol == "v2":
        rows = v2.index(found.server)
        return tuple(str(row["name"]) for row in rows if row.get("state") == "READY" and "name" in row)
    status = v1.status(found.server)
    if isinstance(status, Answer):
        return status
    return tuple(name for name, versions in status.models.items() if "MODEL_READY" in versions.values())
