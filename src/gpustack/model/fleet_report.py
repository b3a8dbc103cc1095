"""The reports of a fleet's hosts, merged."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from gpustack.model.results import Status

Ended = Literal["pass", "fail", "error"]
"""``error``: nothing is proven of the host, as no check ran or one could not."""


class FleetCheck(Struct, frozen=True, kw_only=True):
    """How one check ended on one host."""

    id: str
    component: str
    status: Status
    duration_s: float = 0.0
    reason: str = ""
    fix: str = ""


class FleetHost(Struct, frozen=True, kw_only=True):
    """One host: ``reason`` says why it has no results, empty if it has."""

    name: str
    status: Ended
    groups: tuple[str, ...] = ()
    system: str = ""
    kernel: str = ""
    gpus: str = ""
    level: str = ""
    started: str = ""
    reason: str = ""
    stack: dict[str, str | None] = field(default_factory=dict)
    checks: tuple[FleetCheck, ...] = ()


class FleetReport(Struct, frozen=True, kw_only=True):
    """The document ``gpustack/fleet-report/v1``: hosts by name; ``summary`` counts them by their status."""

    schema: Literal["gpustack/fleet-report/v1"] = "gpustack/fleet-report/v1"
    hosts: tuple[FleetHost, ...] = ()
    summary: dict[str, int] = field(default_factory=dict)
    version: str = ""
