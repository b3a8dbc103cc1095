"""The journal of a run: JSON lines that are only ever appended, each on the disk before the next thing happens."""

from __future__ import annotations

import datetime as dt
import errno
import os
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from gpustack.errors import GpustackError

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

Event = Literal[
    "origin",
    "run",
    "start",
    "kept",
    "command",
    "end",
    "pause",
    "finished",
    "rollback",
    "undone",
    "rolled-back",
]
Outcome = Literal["", "done", "failed", "interrupted", "paused", "skipped"]


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One place in the file tree as it was: ``kind`` "" is absent; ``kept`` names the copy of its content.

    ``sum`` is the checksum of a small file's content, "" where it was not read; while its ``ctime`` (the last change of
    any kind, in ns as ``mtime``) stays, so does the content. ``attributes`` are the extended attributes: ACLs, SELinux
    label and capabilities among them. A file of several names has the number of its file system in ``disk``: names of
    one ``disk`` and ``inode`` are one file; ``links`` is their number, of what was kept those that were kept. ``type``
    (as in st_mode) and ``device`` are those of kind "other": pipe, socket, device. Names and links are as
    ``names.safe`` writes them.
    """

    kind: Literal["", "file", "dir", "link", "other"] = ""
    mode: int = 0
    uid: int = 0
    gid: int = 0
    size: int = 0
    mtime: int = 0
    ctime: int = 0
    inode: int = 0
    link: str = ""
    kept: str = ""
    sum: str = ""
    attributes: dict[str, bytes] = {}
    links: int = 1
    disk: int = 0
    type: int = 0
    device: int = 0


class Origin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a run has its files from and where its lock goes, as whoever began it said; a run goes on with the same.

    ``mirrors`` may hold passwords. ``bundle``, ``lock`` (the file to be written) and ``source`` (the lock that the plan
    came from) are absolute paths, "" where there is none. ``min_speed`` is in KiB a second, None where
    nobody named one.
    """

    mirrors: dict[str, str] = {}
    bundle: str = ""
    lock: str = ""
    source: str = ""
    min_speed: float | None = None

    def or_else(self, former: Origin) -> Origin:
        """Itself, with what it does not name taken from ``former``."""
        return Origin(
            mirrors=self.mirrors or former.mirrors,
            bundle=self.bundle or former.bundle,
            lock=self.lock or former.lock,
            source=self.source or former.source,
            min_speed=former.min_speed if self.min_speed is None else self.min_speed,
        )


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line. ``packages`` maps a package to "VERSION STATE" as it differs from the run's first snapshot ("": gone).

    ``origin`` is that of the run from here on. ``before`` are places as they were, ``changed`` places as the step left
    them; ``pid`` and ``born`` (clock ticks after the boot) name the process of a command; ``boot`` is the kernel's id
    of this boot.
    """

    event: Event
    at: str = ""
    boot: str = ""
    plan: str = ""
    step: str = ""
    outcome: Outcome = ""
    code: int | None = None
    reason: str = ""
    tail: str = ""
    seconds: float = 0.0
    argv: tuple[str, ...] = ()
    pid: int = 0
    born: int = 0
    packages: dict[str, str] | None = None
    before: dict[str, Entry] = {}
    changed: dict[str, Entry] = {}
    foreign: tuple[str, ...] = ()
    origin: Origin | None = None


def boot_id() -> str:
    """The kernel's id of this boot, "" where there is none to read."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


class Journal:
    """Appends records to one file; every line is written whole and synced before ``append`` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records = list(read(path))
        self._handle: int | None = None
        self.boot = boot_id()

    def open(self) -> None:
        """Begin to append."""
        is_new = not self.path.exists()
        self._handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._end_torn_line()
        if is_new:
            sync_folder(self.path.parent)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def append(self, record: Record) -> Record:
        """Write one record. Raises GpustackError where the disk does not take it: nothing may happen unrecorded."""
        if self._handle is None:
            msg = "the journal is closed"
            raise ValueError(msg)
        now = dt.datetime.now(tz=dt.timezone.utc).isoformat(timespec="seconds")
        record = msgspec.structs.replace(record, at=now, boot=self.boot)
        line = msgspec.json.encode(record) + b"\n"
        try:
            written = os.write(self._handle, line)
            os.fsync(self._handle)
        except OSError as exc:
            raise self._unwritable(exc.strerror or str(exc)) from exc
        if written != len(line):
            raise self._unwritable(os.strerror(errno.ENOSPC))
        self.records.append(record)
        return record

    def _unwritable(self, why: str) -> GpustackError:
        return GpustackError(
            f"the journal cannot be written: {why}",
            where=str(self.path),
            hint="make room or mount it writable, then `gpustack install --resume`",
        )

    def _end_torn_line(self) -> None:
        """A line that a crash cut off stays as it is, and the next record begins on a line of its own."""
        raw = self.path.read_bytes()
        if raw and not raw.endswith(b"\n") and self._handle is not None:
            os.write(self._handle, b"\n")


def read(path: Path) -> list[Record]:
    """The records of a journal; lines that were cut off by a crash are left out. None there: no records."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as exc:
        msg = f"the journal cannot be read: {exc.strerror or exc}"
        raise GpustackError(msg, where=str(path), hint="run it as the user who installed") from exc
    decoder = msgspec.json.Decoder(Record)
    records = []
    for line in lines:
        if line.strip():
            try:
                records.append(decoder.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
    return records


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
