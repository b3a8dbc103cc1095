"""The journal of a run: numbered lines with a checksum each, append-only, on disk before the next change.

A line is JSON: ``{"number":3,"sum":"9f3a1c2e","event":...}``. The sum is the CRC-32 of the number, a colon, and what
the line would be without number and sum. An incomplete last line was cut off by a crash and is ignored; anything
else that is invalid is an error.
"""

from __future__ import annotations

import datetime as dt
import errno
import os
import re
import zlib
from pathlib import Path

import msgspec

from gpustack.errors import GpustackError
from gpustack.install.journal.history import History
from gpustack.install.journal.records import Record

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

RESERVE = 2**20
"""Bytes reserved on the disk of the state folder, released if a record would not fit otherwise."""

_HEAD = re.compile(rb'\{"number":(\d+),"sum":"([0-9a-f]{8})",')

_FULL = {errno.ENOSPC, errno.EDQUOT}


class DamagedJournalError(GpustackError):
    """A record is damaged, missing or duplicated: what was done is unknown, so nothing continues.

    ``history`` is that of the records before it.
    """

    code = "journal-damaged"

    def __init__(self, message: str, history: History, *, where: str, hint: str) -> None:
        super().__init__(message, where=where, hint=hint)
        self.history = history


def boot_id() -> str:
    """The kernel's id of this boot, "" if it cannot be read."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


class Journal:
    """Appends records to one file, and maintains their history.

    Raises DamagedJournalError if the existing records cannot be trusted.
    """

    def __init__(self, path: Path, reserve: Path) -> None:
        self.path = path
        self.history, self._length = _read(path)
        self._reserve = reserve
        self._handle: int | None = None
        self.boot = boot_id()

    def open(self) -> None:
        """Begin to append; what a crash cut off is removed."""
        is_new = not self.path.exists()
        try:
            self._handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            os.ftruncate(self._handle, self._length)
        except OSError as exc:
            raise self._unwritable(exc) from exc
        if is_new:
            sync_folder(self.path.parent)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def demand_room(self) -> None:
        """Reserve room for the records of what is about to begin. Raises GpustackError without one."""
        try:
            handle = os.open(self._reserve, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                # Existing blocks are not allocated again.
                os.posix_fallocate(handle, 0, RESERVE)
            finally:
                os.close(handle)
        except OSError as exc:
            msg = f"progress cannot be recorded: {exc.strerror or exc}"
            hint = f"make room on the file system of {self._reserve.parent}, then start again"
            raise GpustackError(msg, code="state-not-writable", where=str(self.path), hint=hint) from exc

    def append(self, record: Record) -> None:
        """Write one record. Raises GpustackError if the disk refuses it: nothing may happen unrecorded."""
        if self._handle is None:
            msg = "the journal is closed"
            raise ValueError(msg)
        now = dt.datetime.now(tz=dt.timezone.utc).isoformat(timespec="seconds")
        record = msgspec.structs.replace(record, at=now, boot=self.boot)
        line = _line(self.history.count + 1, record)
        try:
            self._write(line)
        except OSError as exc:
            if exc.errno not in _FULL or not self._reserve.exists():
                raise self._unwritable(exc) from exc
            self._reserve.unlink()
            try:
                self._write(line)
            except OSError as again:
                raise self._unwritable(again) from again
        self._length += len(line)
        self.history.fold(record)

    def _write(self, line: bytes) -> None:
        """Write the line, whole and synced, or nothing of it."""
        handle = self._handle
        if handle is None:
            return
        try:
            left = line
            while left:
                left = left[os.write(handle, left) :]
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, self._length)
            raise

    def _unwritable(self, exc: OSError) -> GpustackError:
        return GpustackError(
            f"the journal cannot be written: {exc.strerror or exc}",
            code="state-not-writable",
            where=str(self.path),
            hint="make room or mount it writable, then `gpustack install --resume`",
        )


def read(path: Path) -> History:
    """The history in a journal; without a file an empty one. Raises DamagedJournalError, and GpustackError."""
    return _read(path)[0]


def _line(number: int, record: Record) -> bytes:
    body = msgspec.json.encode(record)[1:]
    return b'{"number":%d,"sum":"%s",%s\n' % (number, _sum(number, body), body)


def _sum(number: int, body: bytes) -> bytes:
    return b"%08x" % zlib.crc32(b"%d:{%s" % (number, body))


def _read(path: Path) -> tuple[History, int]:
    """The history, and the number of bytes that it takes in the file."""
    history = History()
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return history, 0
    except OSError as exc:
        msg = f"the journal cannot be read: {exc.strerror or exc}"
        raise GpustackError(
            msg, code="state-unreadable", where=str(path), hint="run it as the user who installed"
        ) from exc
    length = raw.rfind(b"\n") + 1
    for line in raw[:length].split(b"\n")[:-1]:
        history.fold(_record(line, history, path))
    # A crash cuts a line off and may leave zeros behind it; it does not replace its end by another byte.
    if not raw.endswith(b"\0") and _is_whole(raw[length:-1], history.count + 1):
        raise _damaged(history, path, "is damaged")
    return history, length


_DECODER: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


def _record(line: bytes, history: History, path: Path) -> Record:
    """The next record. Raises DamagedJournalError."""
    head = _HEAD.match(line)
    if head is None:
        raise _damaged(history, path, "is damaged or was written by another version of gpustack")
    number = int(head[1])
    if _sum(number, line[head.end() :]) != head[2]:
        raise _damaged(history, path, "is damaged")
    if number != history.count + 1:
        raise _damaged(history, path, "is missing" if number > history.count + 1 else f"is record {number} again")
    try:
        return _DECODER.decode(b"{" + line[head.end() :])
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise _damaged(history, path, "is of a kind unknown to this version of gpustack") from exc


def _is_whole(line: bytes, number: int) -> bool:
    head = _HEAD.match(line)
    return head is not None and int(head[1]) == number and _sum(number, line[head.end() :]) == head[2]


def _damaged(history: History, path: Path, how: str) -> DamagedJournalError:
    begun = history.begun()
    done = f"{len(begun)} steps had started by then" if begun else "no step had started by then"
    msg = f"record {history.count + 1} of the journal {how}: {history.count} records are sound, {done}"
    hint = (
        "restore the journal from a copy and try again; `gpustack install --abandon` gives the run up: "
        "what it did stays on the system, and so does its folder"
    )
    return DamagedJournalError(msg, history, where=str(path), hint=hint)


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
