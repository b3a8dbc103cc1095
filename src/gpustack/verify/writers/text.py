"""The report for people at a terminal."""

from __future__ import annotations

from gpustack.model.results import CheckResult, Report, Status
from gpustack.verify.frame.summary import not_proven, summary
from gpustack.visible import one_line

_COLOURS: dict[Status, str] = {"pass": "32", "fail": "1;31", "skip": "33", "error": "1;35"}
_INDENT = " " * 7


def write(report: Report, *, colour: bool) -> str:
    """One aligned line per check, with reason and fix below those that need it; a summary last."""
    width = max((len(one.id) for one in report.checks), default=0)
    lines: list[str] = []
    shown: set[str] = set()
    for one in report.checks:
        lines += _check(one, width, colour=colour)
        # Many skips share one cause, whose fix need not be repeated.
        if one.fix and (one.status in {"fail", "error"} or one.fix not in shown):
            lines.append(f"{_INDENT}fix: {one_line(one.fix)}")
        shown.add(one.fix)
    ends = [summary(report), not_proven(report)]
    return "\n".join([*lines, *([""] if lines else []), *filter(None, ends), ""])


def _check(one: CheckResult, width: int, *, colour: bool) -> list[str]:
    mark = f"{one.status:<5}"
    if colour:
        mark = f"\x1b[{_COLOURS[one.status]}m{mark}\x1b[0m"
    said = one.detail if one.status == "pass" else one.reason
    first = one_line(said or one.title)
    if one.status in {"pass", "skip"}:
        return [f"{mark}  {one.id:<{width}}  {first}"]
    lines = [f"{mark}  {one.id:<{width}}  {one_line(one.title)}", f"{_INDENT}{first}"]
    if one.detail:
        lines.append(f"{_INDENT}{one_line(one.detail)}")
    return lines
