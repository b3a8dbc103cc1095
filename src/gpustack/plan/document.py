"""The plan document as a file: validated when read, reproduced byte for byte when written."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from gpustack.errors import DocumentError
from gpustack.model.plan import PHASES, Plan
from gpustack.model.steps import Step
from gpustack.plan.commands import commands_of, packages_of
from gpustack.plan.draft import sha256_of
from gpustack.plan.former import actions_of, undo_actions_of
from gpustack.plan.sound import step_fault
from gpustack.visible import visible_json

SCHEMA = "gpustack/plan/v1"
MAX_BYTES = 64 * 1024 * 1024
"""No plan is larger, so a larger file is not read."""

_HINT = "`gpustack plan --format json` makes a plan document"


def dump(plan: Plan) -> str:
    """The document of a plan: indented JSON, keys in the order of the types, one final line break."""
    compact = msgspec.json.encode(plan, order="deterministic")
    return visible_json(msgspec.json.format(compact, indent=2).decode()) + "\n"


STANDARD = Path("-")
"""The name that stands for standard input."""


def load(path: Path) -> Plan:
    """The plan in the file ``path``, or on standard input if that is "-".

    Raises DocumentError (exit 2) if it cannot be read, is not a plan, has another schema, or was changed by hand.
    """
    return parse(_read(path), where=str(path))


def parse(raw: bytes, *, where: str) -> Plan:
    """The plan in the bytes ``raw``; ``where`` names them in errors. Raises DocumentError as ``load`` does."""
    try:
        document = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise unreadable(where, f"is not JSON: {exc}") from exc
    _check_schema(document, where)
    try:
        plan = msgspec.convert(document, Plan)
    except (msgspec.ValidationError, RecursionError) as exc:
        raise unreadable(where, f"is not a plan: {exc}") from exc
    own = digest_of(plan)
    if plan.digest != own and plan.digest != digest_of_document(document):
        msg = "was changed after it was written: its digest does not match its content"
        raise DocumentError(
            msg, code="plan-altered", where=where, hint="make a new plan with `gpustack plan --out FILE`"
        )
    demand_sound(plan, where)
    # An earlier edition wrote fewer fields: reseal it as this edition writes it.
    return plan if plan.digest == own else replace(plan, digest=own)


def digest_of_document(document: Mapping[str, Any]) -> str:
    """The digest of a document as it was written, whatever fields its edition had."""
    return sha256_of({name: value for name, value in document.items() if name != "digest"})


def digest_of(plan: Plan) -> str:
    """The sha256 over the canonical JSON of a plan without its digest."""
    return digest_of_document(msgspec.to_builtins(plan))


def _read(path: Path) -> bytes:
    try:
        if path == STANDARD:
            return _small(sys.stdin.buffer.read(MAX_BYTES + 1), "-")
        # What a shell makes of <(COMMAND), and its standard input. Other pipes could wait for ever.
        is_open_pipe = path.is_fifo() and (path.parent == Path("/dev/fd") or path == Path("/dev/stdin"))
        if not path.is_file() and not is_open_pipe:
            raise unreadable(str(path), "is not a file" if path.exists() else "does not exist")
        with path.open("rb") as stream:
            return _small(stream.read(MAX_BYTES + 1), str(path))
    except OSError as exc:
        raise unreadable(str(path), f"cannot be read: {exc.strerror or exc}") from exc


def _small(raw: bytes, where: str) -> bytes:
    if len(raw) > MAX_BYTES:
        raise unreadable(where, f"is larger than {MAX_BYTES // 2**20} MiB; no plan is")
    return raw


def _check_schema(document: object, where: str) -> None:
    if not isinstance(document, dict):
        raise unreadable(where, "is JSON, but not a plan document")
    schema = document.get("schema")
    if schema != SCHEMA:
        raise unreadable(where, f"has the schema {schema!r}; a plan has {SCHEMA!r}"[:300])


def demand_sound(plan: Plan, where: str) -> None:
    """Raise DocumentError if a step of a plan cannot be carried out, and name the field."""
    earlier: set[str] = set()
    for number, step in enumerate(plan.steps):
        if step.phase not in PHASES:
            raise unreadable(where, f"step {step.id!r} has the unknown phase {step.phase!r}")
        if step.id in earlier:
            raise unreadable(where, f"step id {step.id!r} occurs twice")
        if not earlier.issuperset(step.depends_on):
            raise unreadable(where, f"step {step.id!r} comes before one that it needs")
        if any(not argv for argv in (*step.commands, *step.undo)):
            raise unreadable(where, f"step {step.id!r} has an empty command")
        _check_actions(step, where)
        fault = step_fault(step, is_windows=plan.host.os.family == "windows")
        if fault:
            raise unreadable(where, f"steps[{number}].{fault}")
        earlier.add(step.id)


def _check_actions(step: Step, where: str) -> None:
    """Demand that what was reviewed is what runs: commands, undo and packages follow from the actions."""
    if step.actions is UNSET and step.undo_actions is UNSET:
        return
    actions, back = actions_of(step), undo_actions_of(step)
    try:
        derived = commands_of(actions), commands_of(back), packages_of(actions)
    except ValueError as exc:
        raise unreadable(where, f"step {step.id!r} has an action that its package manager does not support") from exc
    if derived != (step.commands, step.undo, step.packages):
        msg = f"the commands of step {step.id!r} are not those of its actions"
        raise DocumentError(
            msg, code="plan-altered", where=where, hint="make a new plan with `gpustack plan --out FILE`"
        )


def unreadable(where: str, message: str) -> DocumentError:
    return DocumentError(message, code="unreadable-plan", where=where, hint=_HINT)
