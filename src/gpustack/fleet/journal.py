"""What happened to each host of a fleet's plan, line by line: a run that was killed is resumed from it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec

from gpustack.errors import GpustackError

JOURNAL = "apply.jsonl"

Phase = Literal["drained", "begun", "applied", "verified", "done", "failed", "stale"]
"""``begun``: its role may have changed something; ``done``: it is verified and back in service."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One line. ``was_out`` says that the host was out of service before, so it stays out."""

    host: str
    phase: Phase
    reason: str = ""
    was_out: bool = False


class Journal:
    """The journal of a folder; ``now`` is the last record of each host, ``out`` who was out of service before."""

    def __init__(self, folder: Path) -> None:
        """Read it. Raises GpustackError if it cannot be read."""
        self._path = folder / JOURNAL
        self.now: dict[str, Record] = {}
        self.touched: set[str] = set()
        self.was_out: set[str] = set()
        self.drained: set[str] = set()
        try:
            text = self._path.read_bytes() if self._path.exists() else b""
        except OSError as exc:
            msg = f"cannot be read: {exc.strerror or exc}"
            raise GpustackError(msg, code="journal-damaged", where=str(self._path), hint="restore it") from exc
        whole, _, _ = text.rpartition(b"\n")  # the last line of a killed run may be a part
        for line in whole.splitlines():
            self._learn(self._record(line))
        if text and not text.endswith(b"\n"):
            self._append(b"", start=len(whole) + 1 if whole else 0)

    def _record(self, line: bytes) -> Record:
        try:
            return msgspec.json.decode(line, type=Record)
        except (msgspec.DecodeError, UnicodeError) as exc:
            msg = f"has a line that is no record: {exc}"
            raise GpustackError(msg, code="journal-damaged", where=str(self._path), hint="restore it") from exc

    def write(self, host: str, phase: Phase, reason: str = "", *, was_out: bool = False) -> None:
        """Add a record and wait until the disk has it. Raises GpustackError if it cannot be written."""
        record = Record(host=host, phase=phase, reason=reason, was_out=was_out)
        self._append(msgspec.json.encode(record) + b"\n")
        self._learn(record)

    def _append(self, data: bytes, *, start: int | None = None) -> None:
        try:
            with self._path.open("ab") as stream:
                if start is not None:
                    stream.truncate(start)
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as exc:
            msg = f"cannot be written: {exc.strerror or exc}"
            hint = "make room there, then continue: gpustack fleet apply DIR --resume"
            raise GpustackError(msg, code="not-writable", where=str(self._path), hint=hint) from exc

    def _learn(self, record: Record) -> None:
        self.now[record.host] = record
        if record.phase == "begun":
            self.touched.add(record.host)
        if record.phase == "drained":
            self.drained.add(record.host)
            if record.was_out:
                self.was_out.add(record.host)
        if record.phase == "done":
            self.drained.discard(record.host)

    def is_done(self, host: str) -> bool:
        """Whether nothing is left to do for a host."""
        return host in self.now and self.now[host].phase == "done"
