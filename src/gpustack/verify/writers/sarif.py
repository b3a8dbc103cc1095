"""The report as SARIF 2.1.0 for code scanning services: a rule per check, a result for each failure."""

from __future__ import annotations

from typing import Any

import msgspec

from gpustack.model.results import CheckResult, Report

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_PLACE = "gpustack.toml"
"""GitHub refuses results without a place in the repository: a failure is one of the stack that this file requests."""


def write(report: Report, *, colour: bool) -> str:  # noqa: ARG001 (every writer is called alike)
    """One run; a fault that the next report of the same level does not hold is closed by the service."""
    rules = [_rule(one) for one in report.checks]
    driver: dict[str, Any] = {"name": "gpustack verify", "rules": rules}
    if report.version:
        driver["version"] = report.version
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"gpustack/{report.level}/"},
        "results": [
            _result(number, one) for number, one in enumerate(report.checks) if one.status in {"fail", "error"}
        ],
        "invocations": [_invocation(report)],
        "columnKind": "unicodeCodePoints",
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _rule(one: CheckResult) -> dict[str, Any]:
    title = one.title or one.id
    fix = _sentence(f"To fix: {one.fix}") if one.fix else "What it checks, and what fixes it, is in docs/verify.md."
    return {
        "id": one.id,
        "name": "".join(part.capitalize() for part in one.id.replace("-", ".").split(".")),
        "shortDescription": {"text": _sentence(title)},
        "fullDescription": {"text": _sentence(f"{one.component}, level {one.level}: {title}")},
        "help": {"text": fix},
        "defaultConfiguration": {"level": "error"},
        "properties": {"component": one.component, "level": one.level, "tags": ["gpu", one.component]},
    }


def _result(number: int, one: CheckResult) -> dict[str, Any]:
    lines = [_sentence(one.reason or one.title or one.id)]
    if one.fix:
        lines.append(_sentence(f"Fix: {one.fix}"))
    return {
        "ruleId": one.id,
        "ruleIndex": number,
        "kind": "fail",
        # What could not run proves no fault, but proves nothing else either.
        "level": "error" if one.status == "fail" else "warning",
        "message": {"text": "\n".join(lines)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _PLACE},
                    "region": {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 2},
                },
                "logicalLocations": [{"fullyQualifiedName": f"{one.component}/{one.id}", "kind": "module"}],
            }
        ],
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
