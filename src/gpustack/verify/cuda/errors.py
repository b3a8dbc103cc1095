"""What CUDA's error codes mean: each with its cause and its fix."""

from __future__ import annotations

from msgspec import Struct

from gpustack.verify.declare import Context
from gpustack.verify.frame import host_facts

SUBJECT = "driver-errors"


class Meaning(Struct, frozen=True, kw_only=True):
    """A code's name, its cause, and its fix on a machine; ``inside`` is the fix in a container, if it differs."""

    code: int
    name: str
    cause: str
    fix: str
    inside: str = ""


def explain(code: int, context: Context, name: str = "") -> tuple[str, str]:
    """Cause and fix of an error code on this host."""
    meaning = next((row for row in context.matrix.rows(SUBJECT, "cuda", Meaning) if row.code == code), None)
    if meaning is None:
        return f"error {code}{f' ({name})' if name else ''}", "check `sudo dmesg` for NVRM and Xid messages"
    fix = meaning.inside if context.host.environment == "container" and meaning.inside else meaning.fix
    cause = f"error {code} ({meaning.name}): {meaning.cause}"
    compat = host_facts.compat_library(context.host)
    if code == 804 and compat is not None:
        cause += f" ({compat.path})"
    return cause, fix
