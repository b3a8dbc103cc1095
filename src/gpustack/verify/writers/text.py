"""The report for people at a terminal."""

from __future__ import annotations

from gpustack.model.results import CheckResult, Report, Status
from gpustack.verify.frame.summary import not_proven, summary
from gpustack.visible import one_line

_COLOURS: dict[Status, str] = {"pass": "32", "fail": "1;31", "skip": "33", "error": "1;35"}
_INDENT = " " * 7
_NARROW = 24
"""With fewer columns left, a text begins on a line of its own."""


def write(report: Report, *, colour: bool, columns: int = 0) -> str:
    """One aligned line per check, with reason and fix below those that need it; a summary last.

    With ``columns`` longer texts go on below themselves.
    """
    width = max((len(one.id) for one in report.checks), default=0)
    lines: list[str] = []
    shown: set[str] = set()
    for one in report.checks:
        lines += _check(one, width, columns, colour=colour)
        # Many skips share one cause, whose fix need not be repeated.
        if one.fix and (one.status in {"fail", "error"} or one.fix not in shown):
            lines += _folded(f"{_INDENT}fix: ", len(_INDENT) + 5, one_line(one.fix), columns)
        shown.add(one.fix)
    ends = [summary(report), not_proven(report)]
    return "\n".join([*lines, *([""] if lines else []), *filter(None, ends), ""])


def _check(one: CheckResult, width: int, columns: int, *, colour: bool) -> list[str]:
    mark = f"{one.status:<5}"
    if colour:
        mark = f"\x1b[{_COLOURS[one.status]}m{mark}\x1b[0m"
    said = one.detail if one.status == "pass" else one.reason
    first = one_line(said or one.title)
    head, left = f"{mark}  {one.id:<{width}}  ", len(_INDENT) + width + 2
    if one.status in {"pass", "skip"}:
        return _folded(head, left, first, columns)
    lines = [*_folded(head, left, one_line(one.title), columns), *_folded(_INDENT, len(_INDENT), first, columns)]
    if one.detail:
        lines += _folded(_INDENT, len(_INDENT), one_line(one.detail), columns)
    return lines


def _wrapped(text: str, columns: int) -> list[str]:
    from textwrap import wrap  # noqa: PLC0415 (only on a terminal)

    return wrap(text, columns, break_long_words=False, break_on_hyphens=False)


def _folded(head: str, left: int, text: str, columns: int) -> list[str]:
    """The text after its head, which takes ``left`` columns; where few are left, below it."""
    if not columns or left + len(text) <= columns:
        return [head + text]
    if columns - left < _NARROW:
        pad = " " * (len(_INDENT) + 2)
        return [head.rstrip(), *(pad + line for line in _wrapped(text, columns - len(pad)))]
    first, *rest = _wrapped(text, columns - left)
    return [head + first, *(" " * left + line for line in rest)]
