"""The settings of an installation: its options, the origin of its files, and where it reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from gpustack.install.journal.records import Origin
from gpustack.model.steps import Artifact

Reboot = Literal["now", "ask", "never"]
Progress = Callable[[int, int | None], None]
"""Called with the bytes received so far and in total (None: unknown)."""
Counter = Callable[[str, int | None], Progress]
"""Returns the counter of a file by its name and size (None: unknown)."""


class Options(Struct, frozen=True, kw_only=True):
    """How to install. ``root`` None is this machine; ``wait`` is in seconds, for locks held by others."""

    root: Path | None = None
    assume_yes: bool = False
    reboot: Reboot = "ask"
    wait: float = 300.0


class Downloader(Protocol):
    """Downloads one file of a plan.

    The returned path is in the cache and holds the verified file: checksum and size match the artifact if the plan
    knows them. Called from several threads. Raises GpustackError if the file is not available.
    """

    def __call__(self, artifact: Artifact, progress: Progress) -> Path: ...


class Reporter(Protocol):
    """Receives the progress of an installation. Nothing depends on what it does with it."""

    def step(self, number: int, total: int, title: str) -> None: ...

    def done(self) -> None: ...

    def line(self, text: str) -> None:
        """One line of a command's output."""
        ...

    def say(self, text: str) -> None:
        """A sentence for the user."""
        ...

    def transfer(self, name: str, size: int | None) -> Progress:
        """A counter for one file to be downloaded, of so many bytes (None: unknown)."""
        ...

    def ask(self, question: str) -> bool:
        """Yes or no; no if nobody can answer."""
        ...


class Setting(Struct, frozen=True, kw_only=True):
    """Options, downloader and reporter together: the argument of every entry point.

    ``origin`` is what ``download`` was made from, for a resumed run.
    """

    options: Options
    download: Downloader
    report: Reporter
    origin: Origin = Origin()
