"""A fleet: what the hosts of an inventory answered, one entry a host."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

State = Literal["answered", "unreachable", "failed"]
"""``failed``: the host was reached, and what it answered cannot be used."""


class Member(Struct, frozen=True, kw_only=True):
    """One host of a fleet.

    ``groups`` are its groups in the inventory. ``reason`` says why there is no answer, empty if there is one;
    ``remarks`` say what an answer lacks or how it differs from those of its peers.
    """

    name: str
    groups: tuple[str, ...] = ()
    state: State = "answered"
    reason: str = ""
    remarks: tuple[str, ...] = ()


class Fleet(Struct, frozen=True, kw_only=True):
    """The document ``gpustack/fleet/v1``: the hosts that were asked, in the order of their names.

    ``inventories`` are the inventories of Ansible, ``limit`` the pattern that selected hosts, ``date`` the day.
    """

    schema: Literal["gpustack/fleet/v1"] = "gpustack/fleet/v1"
    date: str = ""
    inventories: tuple[str, ...] = ()
    limit: str = ""
    hosts: tuple[Member, ...] = ()


class Refusal(Struct, frozen=True, kw_only=True):
    """Why a class of hosts has no plan: the error of ``gpustack plan``."""

    id: str
    message: str
    hint: str = ""


class HostClass(Struct, frozen=True, kw_only=True):
    """Hosts that are equal but for their identity, and have the same requirements: one plan serves them all.

    ``name`` stays the same from plan to plan as long as system, GPUs and first host do. ``stack`` maps a component to
    the versions before and after, ``download`` is in bytes (0 also if a size is unknown), ``digest`` is that of the
    plan, "" without one.
    """

    name: str
    hosts: tuple[str, ...]
    requirements: tuple[str, ...] = ()
    system: str = ""
    kernel: str = ""
    gpus: str = ""
    stack: dict[str, tuple[str | None, str | None]] = {}
    steps: int = 0
    reboot: bool = False
    download: int = 0
    digest: str = ""
    warnings: tuple[str, ...] = ()
    refused: Refusal | None = None


class FleetPlan(Struct, frozen=True, kw_only=True):
    """The document ``gpustack/fleet-plan/v1``: classes of hosts, largest first, and the hosts without a class.

    The plan of each class is in a file of its own. ``facts`` is the sha256 of the facts.
    """

    schema: Literal["gpustack/fleet-plan/v1"] = "gpustack/fleet-plan/v1"
    date: str = ""
    inventories: tuple[str, ...] = ()
    limit: str = ""
    facts: str = ""
    classes: tuple[HostClass, ...] = ()
    omitted: tuple[Member, ...] = ()
