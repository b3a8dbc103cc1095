"""Runs checks side by side, each when those that it needs have ended, as many as the host has room for."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

from gpustack.model.results import CheckResult
from gpustack.system.run import stop_commands
from gpustack.verify.declare import Check, Note

MEMORY_PER_CHECK = 1 << 30
"""Free bytes required for each running check: nvcc uses several hundred MiB for a small program."""

_GRACE_S = 8.0
"""A check's own commands end at its limit; after this many more seconds its thread is abandoned.

A thread cannot be stopped; this process ends all threads, and what they started, once the report is written.
"""

_LOOK_S = 0.25
"""Seconds until a signal is heard that came just before the main thread began to wait, or to another thread."""

Run = Callable[[Check, dict[str, CheckResult]], CheckResult]
Lost = Callable[[Check, float], CheckResult]


def room(meminfo: Path = Path("/proc/meminfo")) -> int:
    """How many checks may run at a time: one for each processor of this process, as far as memory allows."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        fields = dict(line.split(":", 1) for line in meminfo.read_text(encoding="ascii").splitlines() if ":" in line)
        free = int(fields["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return processors
    return max(1, min(processors, free // MEMORY_PER_CHECK))


def run_side_by_side(  # noqa: PLR0913, PLR0917 (the checks, what each step of one calls, and where results go)
    checks: list[Check], run: Run, lost: Lost, workers: int, note: Note, done: dict[str, CheckResult]
) -> None:
    """Put the result of each check into ``done``, by id. ``checks`` are in an order in which needs come first.

    A check marked ``alone`` waits until no other runs, and no other starts while it runs. On Ctrl-C the commands of
    all checks are stopped; ``done`` then holds what had ended.
    """
    crew = _Crew(checks, run, lost, note, done)
    try:
        while crew.waiting or crew.running:
            crew.start(workers)
            crew.wait()
    except BaseException:
        stop_commands()
        raise


class _Crew:
    """The checks of one run: those that wait, run, and are done."""

    def __init__(self, checks: list[Check], run: Run, lost: Lost, note: Note, done: dict[str, CheckResult]) -> None:
        self.waiting = list(checks)
        self.running: dict[str, tuple[Check, float]] = {}
        self.done = done
        self._run = run
        self._lost = lost
        self._note = note
        self._known = {one.id for one in checks}
        self._ends: queue.SimpleQueue[CheckResult | Exception] = queue.SimpleQueue()

    def start(self, workers: int) -> None:
        """Start what may start now."""
        if any(one.alone for one, _ in self.running.values()):
            return
        ready = [one for one in self.waiting if not any(need in self._open() for need in one.needs)]
        for one in ready:
            if len(self.running) >= workers:
                return
            if not one.alone:
                self._begin(one)
        if not self.running and ready:
            self._begin(ready[0])

    def _open(self) -> set[str]:
        return self._known - self.done.keys()

    def _begin(self, one: Check) -> None:
        self.waiting.remove(one)
        self.running[one.id] = (one, time.monotonic())
        self._note("starts", one.id)
        threading.Thread(target=self._work, args=(one, dict(self.done)), name=one.id, daemon=True).start()

    def _work(self, one: Check, done: dict[str, CheckResult]) -> None:
        # What a check raises is its result already; anything else is a fault of this program, and is raised in its
        # main thread: a thread that just ended would leave the run waiting for the check's whole time.
        try:
            self._ends.put(self._run(one, done))
        except Exception as exc:  # noqa: BLE001 (raised again by wait)
            self._ends.put(exc)

    def wait(self) -> None:
        """Store the next result if one comes soon, or abandon checks that exceeded their time.

        Raises whatever a worker raised outside its check.
        """
        now = time.monotonic()
        ends = [began + one.limit_s + _GRACE_S for one, began in self.running.values()]
        try:
            end = self._ends.get(timeout=max(0.0, min(_LOOK_S, min(ends) - now)))
            if isinstance(end, Exception):
                raise end
            self._take(end)
        except queue.Empty:
            now = time.monotonic()
            for one, began in tuple(self.running.values()):
                if now >= began + one.limit_s + _GRACE_S:
                    self._take(self._lost(one, now - began))

    def _take(self, result: CheckResult) -> None:
        # An abandoned check may still return: its result is ignored.
        if self.running.pop(result.id, None) is not None:
            self.done[result.id] = result
            self._note("ends", result.id)
