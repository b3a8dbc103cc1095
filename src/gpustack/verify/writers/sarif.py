"""The report as SARIF 2.1.0 for code scanning services: a rule per check, a result for each that did not pass."""

from __future__ import annotations

from typing import Any

import msgspec

from gpustack.model.results import CheckResult, Report

_KINDS = {"fail": "fail", "error": "review", "skip": "notApplicable", "pass": "pass"}
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def write(report: Report, *, colour: bool) -> str:  # noqa: ARG001 (every writer is called alike)
    """One run; passed checks are results of kind "pass", so that the next report closes a fixed fault."""
    rules = [_rule(one) for one in report.checks]
    driver: dict[str, Any] = {"name": "gpustack verify", "rules": rules}
    if report.version:
        driver["version"] = report.version
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "results": [_result(number, one) for number, one in enumerate(report.checks)],
        "invocations": [_invocation(report)],
        "columnKind": "unicodeCodePoints",
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _rule(one: CheckResult) -> dict[str, Any]:
    return {
        "id": one.id,
        "shortDescription": {"text": one.title or one.id},
        "properties": {"component": one.component, "level": one.level},
    }


def _result(number: int, one: CheckResult) -> dict[str, Any]:
    lines = [one.detail or one.title or one.id] if one.status == "pass" else [one.reason or one.title or one.id]
    if one.status in {"fail", "error"} and one.fix:
        lines.append(f"Fix: {one.fix}")
    return {
        "ruleId": one.id,
        "ruleIndex": number,
        "kind": _KINDS[one.status],
        # The standard requires "none" unless the kind is a failure.
        "level": "error" if one.status == "fail" else "none",
        "message": {"text": "\n".join(lines)},
        # A host has no file to point at; services that require a place get the report's subject.
        "locations": [{"logicalLocations": [{"fullyQualifiedName": f"{one.component}/{one.id}", "kind": "module"}]}],
        "partialFingerprints": {"check/v1": one.id},
    }


def _invocation(report: Report) -> dict[str, Any]:
    broken = [one for one in report.checks if one.status == "error"]
    invocation: dict[str, Any] = {"executionSuccessful": not broken}
    if report.started.endswith("+00:00"):
        invocation["startTimeUtc"] = report.started.removesuffix("+00:00") + "Z"
    if broken:
        invocation["toolExecutionNotifications"] = [
            {
                "descriptor": {"id": one.id},
                "level": "error",
                "message": {"text": one.reason or "could not run"},
            }
            for one in broken
        ]
    return invocation
