"""The report as GitHub workflow commands: an annotation for each check that did not pass."""

from __future__ import annotations

from gpustack.model.results import CheckResult, Report
from gpustack.verify.writers.text import summary
from gpustack.visible import one_line, visible

_COMMANDS = {"fail": "error", "error": "error", "skip": "notice"}


def write(report: Report, *, colour: bool) -> str:  # noqa: ARG001 (every writer has the same parameters)
    """One ``::error`` or ``::notice`` line for each check that did not pass, and the summary as plain text."""
    lines = [_annotation(one) for one in report.checks if one.status in _COMMANDS]
    return "\n".join([*lines, summary(report)]) + "\n"


def _annotation(one: CheckResult) -> str:
    fix = f"\nfix: {one.fix}" if one.fix else ""
    return (
        f"::{_COMMANDS[one.status]} title={_property(one_line(one.id + ' ' + one.title))}::{_message(one.reason + fix)}"
    )


def _message(text: str) -> str:
    return visible(text.replace("%", "%25").replace("\r", "%0D")).replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
