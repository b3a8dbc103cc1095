"""Progress of an installation: plain lines on standard error, and counters if that is a terminal."""

import shutil
import time
from collections import deque
from collections.abc import Callable
from threading import Lock

from gpustack.cli import frame
from gpustack.system.signals import answer
from gpustack.visible import visible

_EVERY = 0.2
"""Seconds between two updates of a counter on a terminal."""

_OF_LATE = 10.0
"""Seconds over which the rate is averaged."""


class _File:
    """One file in transfer; ``there`` is None until it begins."""

    def __init__(self, name: str, size: int | None) -> None:
        self.name = name
        self.size = size
        self.there: int | None = None

    def is_whole(self) -> bool:
        return self.there is not None and self.size is not None and self.there >= self.size

    def text(self) -> str:
        share = f" of {_mebibytes(self.size)}" if self.size is not None else ""
        return f"    {visible(self.name)} {_mebibytes(self.there or 0)}{share}"


class _Rate:
    """The recent transfer rate over all files."""

    def __init__(self) -> None:
        self._came = 0
        self._looks: deque[tuple[float, int]] = deque()

    def count(self, more: int) -> None:
        """Count received bytes; None when a file restarts."""
        if not self._looks:
            self._looks.append((time.monotonic(), 0))
        self._came += max(0, more)

    def text(self, left: int | None) -> str:
        """The rate and the time until ``left`` bytes arrive (None: unknown), "" while too little is known."""
        now = time.monotonic()
        since, before = self._looks[0]
        rate = (self._came - before) / max(now - since, 0.001)
        self._looks.append((now, self._came))
        while len(self._looks) > 2 and now - self._looks[1][0] >= _OF_LATE:
            self._looks.popleft()
        if now - since < _EVERY or not rate:
            return ""
        return f", {_mebibytes(rate)}/s" + (f", {_clock(left / rate)} left" if left is not None else "")


class Progress:
    """The ``Reporter`` of the command line."""

    def __init__(self) -> None:
        self._is_quiet = frame.settings().is_quiet
        self._is_terminal = frame.has_terminal() and not self._is_quiet
        self._verbose = frame.settings().verbose
        self._lock = Lock()
        self._lines: list[str] = []
        self._files: list[_File] = []
        self._rate = _Rate()
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
        elif self._is_terminal:
            self._pass(f"    {visible(text)}")

    def say(self, text: str) -> None:
        """Print a sentence for the user."""
        for line in text.splitlines():
            self._print(line)

    def transfer(self, name: str, size: int | None) -> Callable[[int, int | None], None]:
        """Report progress of one file: an overwritten line on a terminal; elsewhere a line at resume and end."""
        file = _File(name, size)
        self._files.append(file)

        def count(there: int, total: int | None) -> None:
            with self._lock:
                is_first, was_whole = file.there is None, file.is_whole()
                # What an earlier attempt left, or the cache had, was not transferred now.
                self._rate.count(there - file.there if file.there is not None else 0)
                file.there, file.size = there, total if total is not None else file.size
                if self._is_quiet or was_whole:
                    return
                if file.is_whole():
                    self._say(file.text())
                elif is_first and there:
                    self._say(f"{file.text()}: continues from there")
                self._look()

        return count

    def _look(self) -> None:
        """Show the files in transfer and the overall progress at intervals."""
        now = time.monotonic()
        under_way = [one for one in self._files if one.there and not one.is_whole()]
        if not self._is_terminal or (under_way and now - self._looked < _EVERY):
            return
        self._looked = now
        lines = [one.text() for one in under_way]
        if under_way:
            there = sum(one.there or 0 for one in self._files)
            unknown = any(one.size is None for one in self._files)
            size = None if unknown else sum(one.size or 0 for one in self._files)
            pace = self._rate.text(None if size is None else max(0, size - there))
            if len(self._files) == 1:
                lines = [f"{lines[0]}{pace}"]
            else:
                total = "" if size is None else f" of {_mebibytes(size)}"
                lines.append(f"    all {len(self._files)} files: {_mebibytes(there)}{total}{pace}")
        self._show(lines)

    def ask(self, question: str) -> bool:
        """Ask yes or no; no if nobody can answer, or a signal arrives instead."""
        return frame.can_ask() and answer(lambda: frame.confirm(question))

    def _print(self, text: str) -> None:
        with self._lock:
            self._say(text)

    def _pass(self, text: str) -> None:
        """Show a line that the next one overwrites."""
        with self._lock:
            self._show([text])

    def _say(self, text: str) -> None:
        """Print a permanent line above those that are overwritten."""
        passing = self._lines
        self._show([])
        frame.say(text)
        self._show(passing)

    def _show(self, lines: list[str]) -> None:
        """Show lines that the next ones overwrite."""
        if not self._is_terminal:
            return
        width = shutil.get_terminal_size().columns - 1
        text = "\n".join(line[:width] for line in lines)
        back = f"\r\x1b[{len(self._lines) - 1}A" if len(self._lines) > 1 else "\r" if self._lines else ""
        if back or text:
            frame.draw(f"{back}\x1b[J{text}" if back else text)
        self._lines = lines


def _mebibytes(size: float) -> str:
    return f"{size / 2**20:.1f} MiB"


def _clock(seconds: float) -> str:
    """A time in hours, minutes and seconds, as short as possible: 1:02:03, 2:03, 0:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
