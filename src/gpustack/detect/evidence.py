"""Evidence: the raw record of one machine, the only input of everything else in detect."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

RECORD = "evidence.json"
"""The file that makes a folder the record of a machine."""


class CommandOutput(Struct, frozen=True, kw_only=True):
    """The result of one command. ``code`` is None if it could not run."""

    code: int | None = None
    out: str = ""
    err: str = ""


class Fault(Struct, frozen=True, kw_only=True):
    """A file that exists but could not be used, and why."""

    path: str
    reason: str


class Evidence(Struct, frozen=True, kw_only=True):
    """Everything read from one machine, before any interpretation.

    Paths are absolute inside the root that was read. ``blobs`` are base64, ``marks`` are single observations on files
    too big to keep ("/lib/modules/.../nvidia.ko": "signed"), ``commands`` are keyed by the joined argument list,
    ``rpms`` are lines of tab-separated name, epoch, version, release, architecture, vendor. ``date`` is the day of
    gathering (YYYY-MM-DD), ``live`` tells whether this was the running machine, ``excerpt`` that the host can have
    files of which nothing was reported, ``pasted`` is the whole text that somebody pasted in place of a machine.
    """

    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    listings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    blobs: dict[str, str] = field(default_factory=dict)
    marks: dict[str, str] = field(default_factory=dict)
    commands: dict[str, CommandOutput] = field(default_factory=dict)
    rpms: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=dict)
    nvml: dict[str, Any] | None = None
    faults: tuple[Fault, ...] = ()
    date: str = ""
    live: bool = False
    excerpt: bool = False
    pasted: str = ""

    def text(self, *paths: str) -> str | None:
        """The text of the first of these files that was read, or None."""
        return next((self.files[path] for path in paths if path in self.files), None)

    def line(self, *paths: str) -> str | None:
        """The first line of the first of these files, stripped; None if missing or empty."""
        text = self.text(*paths)
        lines = text.strip().splitlines() if text else []
        return lines[0].strip() or None if lines else None

    def under(self, folder: str, suffix: str = "") -> dict[str, str]:
        """The files directly below ``folder`` whose name ends with ``suffix``, by path, sorted."""
        head = folder.rstrip("/") + "/"
        return {
            path: text
            for path, text in sorted(self.files.items())
            if path.startswith(head) and "/" not in path[len(head) :] and path.endswith(suffix)
        }

    def has(self, path: str) -> bool:
        """Whether that path was seen at all."""
        folder, _, name = path.rpartition("/")
        return (
            path in self.files
            or path in self.links
            or path in self.listings
            or path in self.marks
            or name in self.listings.get(folder or "/", ())
        )

    def output(self, command: str) -> str | None:
        """The output of a command that exited with 0, else None."""
        found = self.commands.get(command)
        return found.out if found is not None and found.code == 0 else None
