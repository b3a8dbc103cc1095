"""Progress of an installation: plain lines on standard error, and counters if that is a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING

from gpustack.cli import frame
from gpustack.system.signals import answer
from gpustack.visible import visible

if TYPE_CHECKING:
    from gpustack.cli.progress_display import Display

_EVERY = 0.2
"""Seconds between two updates of a counter on a terminal."""


class Progress:
    """The ``Reporter`` of the command line."""

    def __init__(self) -> None:
        self._is_quiet = frame.settings().is_quiet
        self._verbose = frame.settings().verbose
        self._lock = Lock()
        self._display: Display | None = None
        if frame.has_terminal() and not self._is_quiet:
            from gpustack.cli.progress_display import Display

            self._display = Display()
        self._looked = 0.0
        self._began = 0.0

    def step(self, number: int, total: int, title: str) -> None:
        """A step begins."""
        self._began = time.monotonic()
        if not self._is_quiet:
            self._print(f"[{number}/{total}] {title}")

    def done(self) -> None:
        """It has succeeded."""
        seconds = time.monotonic() - self._began
        if not self._is_quiet and seconds >= 1:
            self._print(f"    done in {seconds:.0f} s")

    def line(self, text: str) -> None:
        """A line of a command's output: shown with -v, and as one passing line on a terminal."""
        if self._verbose:
            self._print(f"    {text}")
        elif self._display is not None:
            with self._lock:
                self._display.passing(f"    {visible(text)}")
                self._display.draw()

    def say(self, text: str) -> None:
        """Print a sentence for the user."""
        for line in text.splitlines():
            self._print(line)

    def transfer(self, name: str, size: int | None) -> Callable[[int, int | None], None]:
        """Report progress of one file: an overwritten line on a terminal; elsewhere a line at resume and end."""
        with self._lock:
            task = self._display.transfer(name, size) if self._display is not None else None
        there: int | None = None

        def count(now: int, total: int | None) -> None:
            nonlocal there, size
            with self._lock:
                is_first, was_whole = there is None, _is_whole(there, size)
                there, size = now, total if total is not None else size
                if self._display is not None and task is not None:
                    self._display.count(task, now, size, came=not is_first)
                if self._is_quiet or was_whole:
                    return
                if _is_whole(there, size):
                    self._say(frame.transferred(name, now, size))
                elif is_first and now:
                    self._say(f"{frame.transferred(name, now, size)}: continues from there")
                self._look()

        return count

    def _look(self) -> None:
        """Show the files in transfer and the overall progress at intervals."""
        now = time.monotonic()
        if self._display is None or (self._display.is_running() and now - self._looked < _EVERY):
            return
        self._looked = now
        self._display.draw()

    def ask(self, question: str) -> bool:
        """Ask yes or no; no if nobody can answer, or a signal arrives instead."""
        return frame.can_ask() and answer(lambda: frame.confirm(question))

    def _print(self, text: str) -> None:
        with self._lock:
            if self._display is not None:
                self._display.passing("")
            self._say(text)

    def _say(self, text: str) -> None:
        """Print a permanent line above those that are overwritten."""
        if self._display is not None:
            self._display.clear()
        frame.say(text)
        if self._display is not None and self._display.is_running():
            self._display.draw()


def _is_whole(there: int | None, size: int | None) -> bool:
    return there is not None and size is not None and there >= size
