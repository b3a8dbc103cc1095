"""From results to the report document and the exit code."""

from __future__ import annotations

from collections.abc import Iterable

from gpustack import __version__
from gpustack.model.host import Host
from gpustack.model.results import CheckResult, Level, Report

STATUSES = ("pass", "fail", "skip", "error")
"""In the order in which summaries name them."""


def build_report(host: Host, results: Iterable[CheckResult], level: Level, *, started: str = "") -> Report:
    """The document ``gpustack/report/v1``. ``started`` is a time in ISO 8601."""
    checks = tuple(results)
    components = tuple(dict.fromkeys(one.component for one in checks))
    found = {name: host.installed[name].version if name in host.installed else None for name in components}
    summary = {status: sum(one.status == status for one in checks) for status in STATUSES}
    return Report(
        host=host,
        stack=found,
        checks=checks,
        summary={**summary, "total": len(checks)},
        level=level,
        started=started,
        version=__version__,
    )


def exit_code(report: Report) -> int:
    """1 when a check failed or could not run, else 0: a stack whose checks did not run is not proven to work."""
    return int(any(one.status in {"fail", "error"} for one in report.checks))
