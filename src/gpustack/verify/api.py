"""The entry points of verify, for the command line and for programs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone

from gpustack.matrix.index import Matrix
from gpustack.model.host import Host
from gpustack.model.results import CheckResult, Report
from gpustack.system.run import Runner
from gpustack.verify.declare import Context, Note, silent
from gpustack.verify.frame.report import build_report, exit_code
from gpustack.verify.frame.runner import Interrupted, parse_level, run_checks
from gpustack.verify.writers import MODULES as _FORMATS
from gpustack.verify.writers import writer

__all__ = ["FORMATS", "Interrupted", "exit_code", "verify", "verify_until", "write"]

FORMATS = tuple(_FORMATS)
"""The formats of ``write``."""


def verify(  # noqa: PLR0913, PLR0917 (one argument for each option of the command line)
    components: Iterable[str],
    level: str,
    host: Host,
    matrix: Matrix,
    runner: Runner | None = None,
    require: Iterable[str] = (),
    *,
    started: str | None = None,
    clock: Callable[[], float] = time.monotonic,
    kept: Iterable[CheckResult] = (),
    note: Note = silent,
    given: Mapping[str, str] | None = None,
) -> Report:
    """Run the checks of ``components`` (all by default) up to ``level`` on ``host``.

    ``runner`` runs commands on that host; None where ``host`` is a saved snapshot. ``require`` are components and
    checks whose skip is a failure. ``started`` is a time in ISO 8601, now by default. ``kept`` are results of an
    earlier report to reuse; ``note`` receives each check that starts or ends above level quick.
    ``given`` are values from the command line for checks (see `gpustack.verify.declare.Context`).
    Raises UsageError (exit 2) for an unknown name or level, UnsupportedError (exit 4) where there are no checks yet,
    and Interrupted on Ctrl-C.
    """
    now = datetime.now(tz=timezone.utc).isoformat(timespec="seconds") if started is None else started
    context = Context(host=host, matrix=matrix, runner=runner, clock=clock, given=dict(given or {}))
    known = parse_level(level)
    results = run_checks(components, known, context, require, kept=kept, note=note, started=now)
    return build_report(host, results, known, started=now)


def verify_until(
    again: Callable[[Iterable[CheckResult]], Report],
    seconds: float,
    *,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Report:
    """Verify until nothing fails or ``seconds`` have passed; the last report.

    ``again`` detects the host again and verifies it, with results to reuse: while something fails, checks above level
    quick that passed are not repeated. Checks that passed at different times do not prove that all works together, so
    the report in which nothing fails is from one complete run. Raises Interrupted on Ctrl-C while it waits.
    """
    end = clock() + seconds
    report = again(())
    wait = _FIRST_PAUSE_S
    while exit_code(report) and clock() < end:
        try:
            pause(min(wait, max(0.0, end - clock())))
        except KeyboardInterrupt as exc:
            raise Interrupted(report, exc) from exc
        wait = min(wait * 2, _LONGEST_PAUSE_S)
        standing = tuple(one for one in report.checks if one.status == "pass" and one.level != "quick")
        report = again(standing)
        if standing and not exit_code(report):
            report = again(())
    return report


_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 5.0


def write(
    report: Report,
    format: str,  # noqa: A002 (the option's own name)
    *,
    colour: bool = False,
    columns: int = 0,
) -> str:
    """The report in one of ``FORMATS``; text in lines of ``columns``. Raises UsageError (exit 2) for another."""
    if format == "text":
        from gpustack.verify.writers import text  # noqa: PLC0415 (imported on first use, as all formats)

        return text.write(report, colour=colour, columns=columns)
    return writer(format)(report, colour=colour)
