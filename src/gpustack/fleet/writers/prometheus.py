"""The report as metrics, so that a dashboard counts hosts and names those that failed."""

from __future__ import annotations

from collections import Counter

from gpustack.fleet.merge import ENDED
from gpustack.model.fleet_report import FleetReport
from gpustack.verify.frame.report import STATUSES
from gpustack.verify.writers.prometheus import Sample, family


def write(report: FleetReport) -> str:
    """Text exposition format."""
    hosts: list[Sample] = [({"status": status}, float(report.summary[status])) for status in ENDED]
    passed: list[Sample] = [({"host": one.name}, float(one.status == "pass")) for one in report.hosts]
    counts: Counter[tuple[str, str]] = Counter(
        (check.id, check.status) for host in report.hosts for check in host.checks
    )
    names = dict.fromkeys(name for name, _ in counts)
    checks: list[Sample] = [
        ({"check": name, "status": status}, float(counts[name, status])) for name in names for status in STATUSES
    ]
    return "".join(
        (
            family("gpustack_fleet_hosts", "Hosts by how their verification ended.", hosts),
            family("gpustack_fleet_host_passed", "Whether the verification of a host ran and passed.", passed),
            family("gpustack_fleet_checks", "On how many hosts a check ended in this status.", checks),
        )
    )
