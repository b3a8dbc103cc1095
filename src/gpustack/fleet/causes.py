"""What is wrong in a fleet, each cause once, with its hosts."""

from __future__ import annotations

from msgspec import Struct, field

from gpustack.model.fleet_report import FleetHost, FleetReport

HOST_ITSELF = "host"
"""Stands in place of a check where a host has no results."""


class Cause(Struct, kw_only=True):
    """One reason for which hosts failed: ``check`` is the check's id, or `HOST_ITSELF`."""

    check: str
    component: str
    status: str
    reason: str
    fix: str
    hosts: list[str] = field(default_factory=list)


def causes(report: FleetReport) -> list[Cause]:
    """All causes, that of the most hosts first."""
    found: dict[tuple[str, str, str, str], Cause] = {}
    for host in report.hosts:
        for check, component, status, reason, fix in _of(host):
            key = (check, status, reason, fix)
            if key not in found:
                found[key] = Cause(check=check, component=component, status=status, reason=reason, fix=fix)
            found[key].hosts.append(host.name)
    return sorted(found.values(), key=lambda one: (-len(one.hosts), one.check, one.reason))


def _of(host: FleetHost) -> list[tuple[str, str, str, str, str]]:
    bad = [
        (one.id, one.component, one.status, one.reason, one.fix)
        for one in host.checks
        if one.status in {"fail", "error"}
    ]
    return [*([(HOST_ITSELF, HOST_ITSELF, "error", host.reason, "")] if host.reason else []), *bad]


def summary(report: FleetReport) -> str:
    """The sum in one line."""
    count = report.summary
    hosts = f"{count['total']} host{'' if count['total'] == 1 else 's'}"
    return f"{hosts}: {count['pass']} passed, {count['fail']} failed, {count['error']} not proven"
