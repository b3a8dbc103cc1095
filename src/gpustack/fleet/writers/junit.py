"""The report as JUnit XML: one suite a host, one testcase a check; a host without results is an error."""

from __future__ import annotations

from gpustack.fleet.causes import HOST_ITSELF
from gpustack.model.fleet_report import FleetHost, FleetReport
from gpustack.model.results import CheckResult
from gpustack.verify.writers.junit import attribute, case, counts


def write(report: FleetReport) -> str:
    """XML 1.0 in UTF-8, by the schema of Jenkins' readers."""
    suites = [(host, _cases(host)) for host in report.hosts]
    every = tuple(one for _, cases in suites for one in cases)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites{counts('gpustack fleet', every)}>"]
    for host, cases in suites:
        stamp = f" timestamp={attribute(host.started[:19])}" if host.started else ""
        skipped = sum(one.status == "skip" for one in cases)
        name = attribute(host.name)
        lines.append(f'  <testsuite{counts(host.name, cases)} skipped="{skipped}"{stamp} hostname={name}>')
        lines += [line for one in cases for line in case(one)]
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>", ""])


def _cases(host: FleetHost) -> tuple[CheckResult, ...]:
    found = tuple(
        CheckResult(
            id=one.id,
            component=one.component,
            status=one.status,
            duration_s=one.duration_s,
            reason=one.reason,
            fix=one.fix,
        )
        for one in host.checks
    )
    if not host.reason:
        return found
    return (CheckResult(id="host.verified", component=HOST_ITSELF, status="error", reason=host.reason), *found)
