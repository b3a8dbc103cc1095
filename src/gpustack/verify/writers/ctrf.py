"""The report as CTRF (Common Test Report Format): JSON that test dashboards read."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from gpustack.model.results import CheckResult, Report
from gpustack.verify.frame.summary import not_proven
from gpustack.visible import visible_json

_STATUS = {"pass": "passed", "fail": "failed", "skip": "skipped", "error": "other"}


def write(report: Report, *, colour: bool) -> str:  # noqa: ARG001 (every writer is called alike)
    """One test for each check; a check that could not run is "other". Times are in milliseconds."""
    start = _milliseconds(report.started)
    took = round(sum(one.duration_s for one in report.checks) * 1000)
    counts = {name: sum(one.status == status for one in report.checks) for status, name in _STATUS.items()}
    summary = {"tests": len(report.checks), **counts, "pending": 0, "start": start, "stop": start + took}
    document = {
        "reportFormat": "CTRF",
        "specVersion": "0.0.0",
        **({"timestamp": report.started} if start else {}),
        "generatedBy": "gpustack verify",
        "results": {
            "tool": {"name": "gpustack verify", **({"version": report.version} if report.version else {})},
            "summary": summary,
            "tests": [_test(one) for one in report.checks],
            "environment": _environment(report),
        },
    }
    return visible_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()) + "\n"


def _test(one: CheckResult) -> dict[str, Any]:
    said = one.detail if one.status == "pass" else one.reason
    parts = (one.detail, one.expected and f"expected: {one.expected}", one.actual and f"actual: {one.actual}")
    extra: dict[str, Any] = {"title": one.title, "fix": one.fix}
    extra["measurements"] = {
        name: {"value": value.value, "unit": value.unit} for name, value in one.measurements.items()
    }
    found: dict[str, Any] = {
        "name": one.id,
        "status": _STATUS[one.status],
        "duration": round(one.duration_s * 1000),
        "suite": [one.component],
        "rawStatus": one.status,
        "tags": [one.level],
        "extra": {name: value for name, value in extra.items() if value},
    }
    if said:
        found["message"] = said
    trace = "\n".join(part for part in parts if part)
    if one.status in {"fail", "error"} and trace:
        found["trace"] = trace
    return found


def _environment(report: Report) -> dict[str, Any]:
    host = report.host
    extra = {
        "host": host.name if isinstance(host.name, str) else "",
        "kernel": host.kernel or "",
        "gpus": [gpu.called for gpu in host.gpus],
        "stack": {name: version for name, version in report.stack.items() if version},
        "notProven": not_proven(report),
    }
    found: dict[str, Any] = {"extra": {name: value for name, value in extra.items() if value}}
    system = host.os.called
    if system:
        found["osPlatform"] = system
    return {**found, "testEnvironment": report.level}


def _milliseconds(started: str) -> int:
    """The time as CTRF counts it; 0 for a report without one."""
    try:
        return round(datetime.fromisoformat(started).timestamp() * 1000)
    except ValueError:
        return 0
