"""What an installation is told from outside: its options, where files come from, whom it tells what it does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from gpustack.install.journal.records import Origin
from gpustack.model.steps import Artifact

Reboot = Literal["now", "ask", "never"]
Progress = Callable[[int, int | None], None]
"""Called with the bytes that are there and the bytes that there will be (None: not known)."""
Counter = Callable[[str, int | None], Progress]
"""Gives the counter of a file by its name and size (None: not known yet)."""


class Options(Struct, frozen=True, kw_only=True):
    """How to install. ``root`` None is this machine; ``wait`` is in seconds, for locks that others hold."""

    root: Path | None = None
    assume_yes: bool = False
    reboot: Reboot = "ask"
    wait: float = 300.0


class Downloader(Protocol):
    """Brings one file of a plan.

    The path returned lies in the cache and holds the verified file: its sum and size are those of the artifact
    wherever the plan knows them. Called from several threads at once. Raises GpustackError when it cannot be had.
    """

    def __call__(self, artifact: Artifact, progress: Progress) -> Path: ...


class Reporter(Protocol):
    """Whom an installation tells what happens. Nothing depends on what it does with it."""

    def step(self, number: int, total: int, title: str) -> None: ...

    def done(self) -> None: ...

    def line(self, text: str) -> None:
        """One line of a command's output."""
        ...

    def say(self, text: str) -> None:
        """A sentence for the person."""
        ...

    def transfer(self, name: str, size: int | None) -> Progress:
        """A counter for one file that will be fetched, of so many bytes (None: not known yet)."""
        ...

    def ask(self, question: str) -> bool:
        """Yes or no; no where nobody can be asked."""
        ...


class Setting(Struct, frozen=True, kw_only=True):
    """Options, what brings files and whom it is told, together: what every entry point is given.

    ``origin`` is what ``download`` was made from, for whoever goes on with the run.
    """

    options: Options
    download: Downloader
    report: Reporter
    origin: Origin = Origin()
