"""The report for people at a terminal."""

from __future__ import annotations

from gpustack.model.results import CheckResult, Report, Status
from gpustack.verify.frame.host_facts import own_gpus
from gpustack.verify.frame.report import STATUSES
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
    return "\n".join([*lines, *([""] if lines else []), summary(report), *_not_proven(report), ""])


def _not_proven(report: Report) -> list[str]:
    """What a report without failures does not prove."""
    if not own_gpus(report.host):
        return ["not proven: that anything runs on a GPU: this host has none"]
    if report.level == "quick":
        return ["not proven: that a GPU computes; `--level smoke` runs programs on it"]
    return []


def summary(report: Report) -> str:
    """The counts in one line: "20 checks: 12 passed, 1 failed, 7 skipped"."""
    words = {"pass": "passed", "fail": "failed", "skip": "skipped", "error": "could not run"}
    counts = [f"{report.summary[name]} {words[name]}" for name in STATUSES if report.summary.get(name)]
    total = len(report.checks)
    return f"{total} check{'' if total == 1 else 's'}: {', '.join(counts) or 'nothing ran'}"


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
