"""What an installation says while it works: plain lines on standard error, and counters where that is a terminal."""

import sys
import time
from collections.abc import Callable
from threading import Lock

from gpustack.cli import frame

_EVERY = 0.2
"""Seconds between two looks of a counter on a terminal."""


class Progress:
    """The ``Reporter`` of the command line."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty() and not frame.settings().is_quiet
        self._is_quiet = frame.settings().is_quiet
        self._verbose = frame.settings().verbose
        self._lock = Lock()
        self._shown = ""
        self._sizes: list[tuple[int, int]] = []
        self._began = 0.0

    def step(self, number: int, total: int, title: str) -> None:
        """A step begins."""
        self._began = time.monotonic()
        if not self._is_quiet:
            self._print(f"[{number}/{total}] {frame.visible(title)}")

    def done(self) -> None:
        """It has ended well."""
        seconds = time.monotonic() - self._began
        if not self._is_quiet and seconds >= 1:
            self._print(f"    done in {seconds:.0f} s")

    def line(self, text: str) -> None:
        """A line of a command's output: shown with -v, and as one passing line on a terminal."""
        if self._verbose:
            self._print(f"    {frame.visible(text)}")
        elif self._is_terminal:
            self._pass(f"    {frame.visible(text)}")

    def say(self, text: str) -> None:
        """A sentence for the person."""
        for line in text.splitlines():
            self._print(frame.visible(line))

    def transfer(self, name: str) -> Callable[[int, int | None], None]:
        """A counter for one file; away from a terminal it tells of the end only."""
        last = 0.0
        number = len(self._sizes)
        self._sizes.append((0, 0))

        def count(there: int, total: int | None) -> None:
            nonlocal last
            is_whole = total is not None and there >= total
            self._sizes[number] = (there, total or there)
            now = time.monotonic()
            if self._is_quiet or (not is_whole and (not self._is_terminal or now - last < _EVERY)):
                return
            last = now
            share = f" of {_mebibytes(total)}" if total else ""
            text = f"    {frame.visible(name)} {_mebibytes(there)}{share}{self._overall()}"
            if is_whole:
                self._print(text)
            else:
                self._pass(text)

        return count

    def _overall(self) -> str:
        """How far all files together are, where there are several."""
        if len(self._sizes) < 2:
            return ""
        there, total = (sum(sizes) for sizes in zip(*self._sizes, strict=True))
        return f" (all {len(self._sizes)} files: {_mebibytes(there)} of {_mebibytes(total)})"

    def ask(self, question: str) -> bool:
        """Yes or no; no where nobody can be asked."""
        if not can_ask():
            return False
        return frame.confirm(question)

    def _print(self, text: str) -> None:
        with self._lock:
            self._clear()
            frame.say(text)

    def _pass(self, text: str) -> None:
        """Show a line that the next one takes the place of."""
        with self._lock:
            self._clear()
            self._shown = text[:100]
            frame.say(f"\r{self._shown}", end="")

    def _clear(self) -> None:
        if self._shown:
            frame.say("\r" + " " * len(self._shown) + "\r", end="")
            self._shown = ""


def can_ask() -> bool:
    """Whether there is a person at a terminal."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
