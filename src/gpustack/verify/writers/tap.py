"""The report in the Test Anything Protocol, version 14."""

from __future__ import annotations

import msgspec

from gpustack.model.results import CheckResult, Report
from gpustack.visible import one_line


def write(report: Report, *, colour: bool) -> str:  # noqa: ARG001 (every writer is called alike)
    """One test point per check; failures have a YAML block, with values quoted as JSON."""
    lines = ["TAP version 14", f"1..{len(report.checks)}"]
    for number, one in enumerate(report.checks, start=1):
        lines += _point(number, one)
    return "\n".join(lines) + "\n"


def _point(number: int, one: CheckResult) -> list[str]:
    state = "not ok" if one.status in {"fail", "error"} else "ok"
    directive = f" # SKIP {_escaped(one.reason)}" if one.status == "skip" else ""
    lines = [f"{state} {number} - {_escaped(f'{one.id} {one.title}'.strip())}{directive}"]
    if one.status in {"fail", "error"}:
        compared = {"expected": one.expected, "actual": one.actual}
        fields = {"status": one.status, "message": one.reason, "fix": one.fix, **compared}
        lines += ["  ---", *(f"  {key}: {_quoted(value)}" for key, value in fields.items() if value), "  ..."]
    return lines


def _escaped(text: str) -> str:
    return one_line(text).replace("\\", "\\\\").replace("#", "\\#")


def _quoted(text: str) -> str:
    """A YAML scalar: JSON's strings are YAML's double-quoted ones."""
    held = text.encode("utf-8", "replace").decode().replace("\x7f", " ")
    # Readers take these for line ends, which JSON does not.
    return msgspec.json.encode(held).decode().translate({0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"})
