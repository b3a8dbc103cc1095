"""The report as GitHub workflow commands: at most ten annotations, which is what GitHub shows of a step."""

from __future__ import annotations

from gpustack.model.results import CheckResult, Report
from gpustack.verify.frame.summary import not_proven, summary
from gpustack.visible import one_line, visible

_SHOWN = 10
"""GitHub shows this many annotations of a kind and step; one of ours is the sum."""


def write(report: Report, *, colour: bool) -> str:  # noqa: ARG001 (every writer has the same parameters)
    """One ``::error`` for each check that failed or could not run, one ``::notice`` with the sum, and the sum as text.

    Skips are in the sum only. Failures beyond the limit are plain lines of the log.
    """
    bad = [one for one in report.checks if one.status in {"fail", "error"}]
    shown, more = bad[: _SHOWN - 1], bad[_SHOWN - 1 :]
    ends = [summary(report), *filter(None, [not_proven(report)])]
    if more:
        ends.append(f"{len(more)} further failures are in the log")
    lines = [_annotation(one) for one in shown]
    lines.append(f"::notice title=gpustack verify::{_message(chr(10).join(ends))}")
    return "\n".join([*lines, *map(_plain, more), *ends]) + "\n"


def _annotation(one: CheckResult) -> str:
    fix = f"\nfix: {one.fix}" if one.fix else ""
    return f"::error title={_property(one_line(one.id + ' ' + one.title))}::{_message(one.reason + fix)}"


def _plain(one: CheckResult) -> str:
    """A line that the runner does not take for a command; its former commands begin anywhere in a line."""
    return f"{one.status}: {one_line(f'{one.id}: {one.reason}')}".replace("##[", "## [")


def _message(text: str) -> str:
    return visible(text.replace("%", "%25").replace("\r", "%0D")).replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
