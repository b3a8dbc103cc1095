"""Results of checks, and the report document."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from gpustack.model.host import Host

Status = Literal["pass", "fail", "skip", "error"]
Level = Literal["quick", "smoke", "full"]


class Measurement(Struct, frozen=True, kw_only=True):
    """One measured value with its unit."""

    value: float | int | str
    unit: str = ""


class CheckResult(Struct, frozen=True, kw_only=True):
    """How one check ended.

    ``reason`` says in the user's words why (empty on pass), ``fix`` the command or action that fixes it, ``detail``
    more; ``expected`` and ``actual`` hold what was compared, ``evidence`` what was read, by file or command.
    """

    id: str
    component: str
    status: Status
    title: str = ""
    level: Level = "quick"
    duration_s: float = 0.0
    reason: str = ""
    fix: str = ""
    detail: str = ""
    expected: str = ""
    actual: str = ""
    measurements: dict[str, Measurement] = field(default_factory=dict)
    evidence: dict[str, str] = field(default_factory=dict)


class Report(Struct, frozen=True, kw_only=True):
    """The document ``gpustack/report/v1``: ``stack`` maps a component to the version found, ``summary`` counts."""

    schema: Literal["gpustack/report/v1"] = "gpustack/report/v1"
    host: Host
    stack: dict[str, str | None] = field(default_factory=dict)
    checks: tuple[CheckResult, ...] = ()
    summary: dict[str, int] = field(default_factory=dict)
    level: Level = "quick"
    started: str = ""
    version: str = ""
