"""The report as JUnit XML for CI systems: one testcase per check, one suite per component."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

from gpustack.model.results import CheckResult, Report
from gpustack.verify.frame.summary import not_proven

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""


def write(report: Report, *, colour: bool) -> str:  # noqa: ARG001 (every writer is called alike)
    """XML 1.0 in UTF-8. Attributes and times, in milliseconds, follow the schema of Jenkins' readers."""
    components = tuple(dict.fromkeys(one.component for one in report.checks))
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites{counts('gpustack verify', report.checks)}>"]
    name = report.host.name
    host = f" hostname={attribute(name)}" if isinstance(name, str) else ""
    for component in components:
        checks = tuple(one for one in report.checks if one.component == component)
        stamp = f" timestamp={attribute(report.started[:19])}" if report.started else ""
        skipped = sum(one.status == "skip" for one in checks)
        lines.append(f'  <testsuite{counts(component, checks)} skipped="{skipped}"{stamp}{host}>')
        lines += _properties(report, component, checks)
        lines += [line for one in checks for line in case(one)]
        lines.append("  </testsuite>")
    lines.append("</testsuites>")
    return "\n".join(lines) + "\n"


def counts(name: str, checks: tuple[CheckResult, ...]) -> str:
    """The attributes of a suite: its name, and how many checks ended how."""
    failures = sum(one.status == "fail" for one in checks)
    errors = sum(one.status == "error" for one in checks)
    seconds = sum(one.duration_s for one in checks)
    counts = f'tests="{len(checks)}" failures="{failures}" errors="{errors}" time="{seconds:.3f}"'
    return f" name={attribute(name)} {counts}"


def _properties(report: Report, component: str, checks: tuple[CheckResult, ...]) -> list[str]:
    """What was found and measured, and what the suite does not prove: readers show properties next to the counts."""
    found = {"version": report.stack.get(component) or "", "level": report.level, "not-proven": not_proven(report)}
    for one in checks:
        for name, measured in one.measurements.items():
            found[f"{one.id}.{name}"] = f"{measured.value} {measured.unit}".strip()
    lines = [
        f"      <property name={attribute(name)} value={attribute(value)}/>" for name, value in found.items() if value
    ]
    return ["    <properties>", *lines, "    </properties>"]


def case(one: CheckResult) -> list[str]:
    """The testcase of one check."""
    head = f'    <testcase name={attribute(one.id)} classname={attribute(one.component)} time="{one.duration_s:.3f}"'
    match one.status:
        case "pass":
            inner = []
        case "skip":
            inner = [f"      <skipped message={attribute(one.reason)}/>"]
        case "fail":
            inner = [_problem("failure", "check failed", one)]
        case _:
            inner = [_problem("error", "check could not run", one)]
    if one.status == "pass" and one.detail:
        inner.append(f"      <system-out>{_text(one.detail)}</system-out>")
    return [f"{head}>", *inner, "    </testcase>"] if inner else [f"{head}/>"]


def _problem(element: str, kind: str, one: CheckResult) -> str:
    parts = (
        one.reason,
        one.detail,
        one.expected and f"expected: {one.expected}",
        one.actual and f"actual: {one.actual}",
        one.fix and f"fix: {one.fix}",
    )
    body = "\n".join(part for part in parts if part)
    return f"      <{element} message={attribute(one.reason)} type={attribute(kind)}>{_text(body)}</{element}>"


def attribute(text: str) -> str:
    """A quoted attribute; characters that XML cannot hold are replaced."""
    return quoteattr(_NOT_XML.sub("\ufffd", text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text), {"\r": "&#13;"})
