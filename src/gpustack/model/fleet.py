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
