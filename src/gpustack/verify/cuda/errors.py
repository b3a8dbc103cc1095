"""What CUDA's error codes mean to whoever has to mend the host: each with a cause and a cure of its own."""

from __future__ import annotations

from msgspec import Struct

from gpustack.verify.declare import Context
from gpustack.verify.frame import host_facts

SUBJECT = "driver-errors"


class Meaning(Struct, frozen=True, kw_only=True):
    """A code's name, its cause, and what mends it on a machine; ``inside`` is the cure in a container, if another."""

    code: int
    name: str
    cause: str
    fix: str
    inside: str = ""


def explained(code: int, context: Context, name: str = "") -> tuple[str, str]:
    """Cause and cure of an error code on this host."""
    meaning = next((row for row in context.matrix.rows(SUBJECT, "cuda", Meaning) if row.code == code), None)
    if meaning is None:
        return f"error {code}{f' ({name})' if name else ''}", "look for NVRM and Xid lines in `sudo dmesg`"
    cure = meaning.inside if context.host.environment == "container" and meaning.inside else meaning.fix
    told = f"error {code} ({meaning.name}): {meaning.cause}"
    compat = host_facts.compat_library(context.host)
    if code == 804 and compat is not None:
        told += f"; it is {compat.path}"
    return told, cure
