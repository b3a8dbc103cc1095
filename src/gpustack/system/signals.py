"""Signals that end this program: whenever they come, it ends in order and says so."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""Sent by a person, a closed terminal or a service manager; each of them would end Python silently."""


class Ended(KeyboardInterrupt):
    """A signal asked this program to end; ``number`` is the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.number = number


def end_in_order() -> None:
    """From now on such a signal raises `Ended` in the main thread."""
    for number in _heeded():
        signal.signal(number, _raise)


def _heeded() -> list[signal.Signals]:
    """Those that our parent does not want ignored, as ``nohup`` and a shell's ``&`` do."""
    return [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]


def _raise(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 (the signature of handlers)
    raise Ended(number)


def answer(ask: Callable[[], bool]) -> bool:
    """Return the answer of ``ask``; no if such a signal comes instead, which then takes its former effect.

    While signals are only noted, Python keeps waiting for the user.
    """
    former = {number: signal.signal(number, _raise) for number in _heeded()}
    came = 0
    is_yes = False
    try:
        is_yes = ask()
    except Ended as stop:
        came = stop.number
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    if came:
        os.kill(os.getpid(), came)
    return is_yes


def await_input(descriptor: int) -> None:
    """Wait in the main thread until ``descriptor`` is readable, or a handler raises.

    A signal between Python's last check and the start of a plain read would wait for the next key.
    """
    import select  # noqa: PLC0415 (only to ask the user)

    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    former = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        while descriptor not in select.select([descriptor, reader], [], [])[0]:
            os.read(reader, 64)
    finally:
        signal.set_wakeup_fd(former)
        os.close(reader)
        os.close(writer)


class Interrupts:
    """Notes such signals; code that runs a command or begins a step reads ``number``, 0 if none came."""

    def __init__(self) -> None:
        self.number = 0
        self._former: dict[int, object] = {}

    def catch(self) -> None:
        """Note signals from now on."""
        for number in _heeded():
            self._former[number] = signal.signal(number, self._note)

    def release(self) -> None:
        """Give signals their former effect."""
        for number, handler in self._former.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal() gave
        self._former = {}

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 (the signature of handlers)
        self.number = number
