"""The compiled facts of an installation as two files: the rows, each once, and the places of all tables in them.

A table whose rows all stand in parts (see ``layout.PARTED``) is the list of their places, so that no byte is in a wheel
twice.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from gpustack.matrix.layout import BINDING, part_name

ROWS = "facts.bin"
PLACES = "places.msgpack"


class Place(Struct, frozen=True, array_like=True):
    """Where a compiled file is: (offset, size) of each run. ``rows`` is their number if it lacks its array's head."""

    runs: list[tuple[int, int]]
    rows: int = -1


class Packed:
    """The reader of packed facts. The file stays open, so that an upgrade of the package changes no answer."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError, msgspec.MsgspecError."""
        self._places = msgspec.msgpack.decode((folder / PLACES).read_bytes(), type=dict[str, Place])
        self._file = os.open(folder / ROWS, os.O_RDONLY | getattr(os, "O_BINARY", 0))

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)

    def blob(self, name: str) -> bytes | None:
        """The compiled file of a name; None without one."""
        place = self._places.get(name)
        if place is None:
            return None
        if len(place.runs) == 1:
            found = self._read(*place.runs[0])
        else:
            first = min((offset for offset, _ in place.runs), default=0)
            whole = self._read(first, max((sum(run) for run in place.runs), default=0) - first)
            found = b"".join([whole[offset - first : offset - first + size] for offset, size in place.runs])
        return found if place.rows < 0 else _head(place.rows) + found

    def _read(self, offset: int, size: int) -> bytes:
        os.lseek(self._file, offset, os.SEEK_SET)
        return os.read(self._file, size)


def pack(blobs: dict[str, bytes]) -> dict[str, bytes]:
    """The compiled files as the contents of ROWS and PLACES; the same facts give the same bytes."""
    body = bytearray()
    places: dict[str, Place] = {}
    rows: dict[bytes, int] = {}
    for name in sorted(blobs, key=lambda name: not _is_part(name)):
        found = [bytes(row) for row in _rows_of(name, blobs[name])]
        if found and not _is_part(name) and all(row in rows for row in found):
            places[name] = Place(_runs([(rows[row], len(row)) for row in found]), len(found))
            continue
        places[name] = Place([(len(body), len(blobs[name]))])
        offset = len(body) + len(blobs[name]) - sum(map(len, found))
        for row in found:
            rows.setdefault(row, offset)
            offset += len(row)
        body += blobs[name]
    return {ROWS: bytes(body), PLACES: msgspec.msgpack.encode(places)}


def _is_part(name: str) -> bool:
    return name.startswith("@")


def _rows_of(name: str, blob: bytes) -> list[msgspec.Raw]:
    """The rows of a table or a part; [] for a subject's head and for what binds releases."""
    if (not _is_part(name) and "." not in name) or name.startswith(part_name(BINDING, "")):
        return []
    return msgspec.msgpack.decode(blob, type=list[msgspec.Raw])


def _runs(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Neighbours as one."""
    runs: list[tuple[int, int]] = []
    for offset, size in places:
        if runs and sum(runs[-1]) == offset:
            runs[-1] = (runs[-1][0], runs[-1][1] + size)
        else:
            runs.append((offset, size))
    return runs


def _head(rows: int) -> bytes:
    """The head of an array, as msgpack has it."""
    if rows < 16:
        return bytes([0x90 | rows])
    return b"\xdc" + rows.to_bytes(2, "big") if rows < 1 << 16 else b"\xdd" + rows.to_bytes(4, "big")
