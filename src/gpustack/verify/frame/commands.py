"""Commands of checks: limited by the check's time, run in its folder, and recorded as evidence."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from gpustack.system.run import Finished, Runner
from gpustack.verify.declare import Context

TAIL_LINES = 40
TAIL_CHARACTERS = 6000


class LimitedRunner:
    """A runner that limits every command to the rest of the check's time, and runs it in the check's folder."""

    def __init__(self, inner: Runner, context: Context, limit_s: float) -> None:
        self._inner = inner
        self._clock = context.clock
        self._work = context.work
        self._end = context.clock() + limit_s

    def run(
        self,
        argv: tuple[str, ...],
        *,
        timeout: float = 10.0,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Finished:
        """Run ``argv`` for ``timeout`` seconds or as long as is left; see `gpustack.system.run.Runner`."""
        left = self._end - self._clock()
        if left <= 0:
            return Finished(argv=argv, code=None, error="the check's time limit was reached before this command")
        if self._work is None and env is None and cwd is None:
            return self._inner.run(argv, timeout=min(timeout, left))
        return self._inner.run(
            argv, timeout=min(timeout, left), env={**_environment(self._work), **(env or {})}, cwd=cwd or self._work
        )


def _environment(work: Path | None) -> dict[str, str]:
    """The variables that keep temporary files and compiled kernels of programs in the check's folder."""
    return {} if work is None else {"TMPDIR": str(work), "CUDA_CACHE_PATH": str(work / "kernels")}


def evidence_of(*ends: Finished, work: Path | None = None) -> dict[str, str]:
    """How commands ended, by command line: exit code or the reason for its absence, and the end of their output."""
    evidence: dict[str, str] = {}
    for end in ends:
        name = _without(shlex.join(end.argv), work)
        outcome = end.error or f"exit code {end.code}"
        evidence[name] = "\n".join(part for part in (tail(_without(end.out + end.err, work)), f"[{outcome}]") if part)
    return evidence


def tail(text: str) -> str:
    """The last lines of ``text``, with a mark where it was shortened."""
    lines = text.rstrip().splitlines()
    short = "\n".join(lines[-TAIL_LINES:])
    if len(lines) <= TAIL_LINES and len(short) <= TAIL_CHARACTERS:
        return short
    return f"[...]\n{short[-TAIL_CHARACTERS:]}"


def first_line(end: Finished) -> str:
    """The first line that a command wrote to standard error, else to standard output, else why it did not run."""
    lines = (end.err.strip() or end.out.strip() or end.error).splitlines()
    return lines[0].strip() if lines else "no output"


def describe_end(end: Finished) -> str:
    """How a program without usable output ended, as the rest of a sentence: a crash, or exit code and message."""
    if end.code is not None and end.code < 0:
        return f"crashed ({signal_in_words(-end.code)})"
    messages = (line for line in (end.err + "\n" + end.out).splitlines() if line.strip() and not line.startswith("{"))
    return f"ended with exit code {end.code}: {next(messages, 'no message').strip()}"


def signal_in_words(number: int) -> str:
    """The signal that ended a program: its number, and its name if it is a common one."""
    return f"signal {number}, {_SIGNALS[number]}" if number in _SIGNALS else f"signal {number}"


_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}


def _without(text: str, work: Path | None) -> str:
    """``text`` with the check's folder, whose name differs from run to run, written as $WORK."""
    return text.replace(str(work), "$WORK") if work else text
