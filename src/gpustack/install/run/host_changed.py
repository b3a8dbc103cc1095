"""Whether the host is still the one that a plan was made for."""

from __future__ import annotations

import msgspec

from gpustack.errors import UsageError
from gpustack.model.host import Host
from gpustack.model.plan import Plan

_ALL = (
    "os",
    "arch",
    "kernel",
    "next_kernel",
    "environment",
    "secure_boot",
    "gpus",
    "nvswitches",
    "module",
    "installed",
    "glibc",
    "repositories",
    "keys",
    "pins",
    "holds",
    "streams",
    "reboot_pending",
)
"""The fields of a host that plans are made from."""

_DESCRIBED = ("id", "family")
"""The fields of the operating system in a description, next to its release."""


def demand_same_host(plan: Plan, host: Host) -> None:
    """Raise UsageError, naming the field, if the host has changed since the plan was made.

    A plan for a described host is valid for every host of that system and architecture.
    """
    changed = _of_description(plan.host, host) if plan.host.described else _of_host(plan.host, host)
    if changed:
        path, old, new = changed
        msg = f"the plan is stale: {path} of the host was {_shown(old)} and is now {_shown(new)}"
        raise UsageError(
            msg,
            code="plan-stale",
            where=f"plan {plan.digest[:12]}",
            hint="make a new plan: `gpustack plan ... --out FILE`",
        )


def _of_description(old: Host, new: Host) -> tuple[str, object, object] | None:
    for name in _DESCRIBED:
        before, now = getattr(old.os, name), getattr(new.os, name)
        if before is not None and before != now:
            return f"os.{name}", before, now
    if old.os.release and not f"{new.os.version_id}.".startswith(f"{old.os.release}."):
        return "os.version_id", old.os.version_id, new.os.version_id
    return ("arch", old.arch, new.arch) if old.arch and new.arch and old.arch != new.arch else None


def _of_host(old: Host, new: Host) -> tuple[str, object, object] | None:
    for name in _ALL:
        found = _first_difference(
            name, msgspec.to_builtins(getattr(old, name)), msgspec.to_builtins(getattr(new, name))
        )
        if found:
            return found
    return None


def _first_difference(path: str, old: object, new: object) -> tuple[str, object, object] | None:
    if old == new:
        return None
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            found = _first_difference(f"{path}.{key}", old.get(key), new.get(key))
            if found:
                return found
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            found = _first_difference(f"{path}[{number}]", one, other)
            if found:
                return found
    return path, old, new


def _shown(value: object) -> str:
    text = "unknown" if value is None else msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}..."
