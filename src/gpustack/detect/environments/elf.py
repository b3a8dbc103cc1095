"""What a shared library says about itself: the libraries that it needs, and the GPU code inside.

GPU code lies in the section ``.nv_fatbin``: containers one after the other, each with entries for one compute
capability, machine code (SASS) or PTX. Only the headers are read, of the first containers: objects of one library are
compiled for the same list.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from msgspec import Struct

MAX_CONTAINERS = 64
MAX_ENTRIES = 1000
MAX_SECTIONS = 200
MAX_TABLE = 4 << 20
"""The longest table of names that is read, in bytes."""

MAX_NAME = 256
"""The longest name of a library that is read, in bytes."""

_CONTAINER = 0xBA55ED50
_KINDS = {1: "ptx", 2: "sm"}
_DYNAMIC, _NEEDED, _STRINGS = ".dynamic", 1, ".dynstr"


class Content(Struct, frozen=True):
    """``needed`` are sonames; ``sm`` and ``ptx`` are compute capabilities as numbers (90 is 9.0), sorted."""

    needed: tuple[str, ...] = ()
    sm: tuple[int, ...] = ()
    ptx: tuple[int, ...] = ()


def read_library(handle: int) -> Content | None:
    """The content of the library that ``handle`` is open on; None for what is no 64-bit little-endian ELF file."""
    try:
        sections = _sections(handle)
        needed = tuple(_needed(handle, sections))
        code = set(_code(handle, *sections[".nv_fatbin"])) if ".nv_fatbin" in sections else set()
    except (OSError, ValueError, OverflowError, struct.error):
        return None
    of_kind = {kind: tuple(sorted(number for one, number in code if one == kind)) for kind in _KINDS.values()}
    return Content(needed, of_kind["sm"], of_kind["ptx"])


def _take(handle: int, size: int, at: int) -> bytes:
    data = os.pread(handle, size, at)
    if len(data) != size:
        msg = "the file ends early"
        raise ValueError(msg)
    return data


def _sections(handle: int) -> dict[str, tuple[int, int]]:
    """Place and size of each section, in bytes. Raises ValueError for another kind of file."""
    head = _take(handle, 64, 0)
    if head[:6] != b"\x7fELF\x02\x01":
        msg = "not a 64-bit little-endian ELF file"
        raise ValueError(msg)
    table, size, count, of_names = struct.unpack_from("<Q10xHHH", head, 40)
    if size != 64 or count > MAX_SECTIONS or of_names >= count:
        msg = "no table of sections"
        raise ValueError(msg)
    rows = [struct.unpack("<II QQQQ 24x", _take(handle, 64, table + 64 * one)) for one in range(count)]
    start, length = rows[of_names][4:6]
    names = _take(handle, min(length, MAX_TABLE), start)
    return {_string(names, row[0]): (row[4], row[5]) for row in rows}


def _string(table: bytes, at: int) -> str:
    return table[at : max(at, table.find(b"\0", at))].decode("ascii", "replace")


def _needed(handle: int, sections: dict[str, tuple[int, int]]) -> Iterator[str]:
    if _DYNAMIC not in sections or _STRINGS not in sections:
        return
    (at, size), (names_at, names_size) = sections[_DYNAMIC], sections[_STRINGS]
    table = _take(handle, min(size, MAX_TABLE) // 16 * 16, at)
    for tag, value in struct.iter_unpack("<qQ", table):
        # one name at a time: the names of a library that was patched lie behind megabytes of symbols
        if tag == _NEEDED and value < names_size:
            yield _string(_take(handle, min(MAX_NAME, names_size - value), names_at + value), 0)


def _code(handle: int, at: int, size: int) -> Iterator[tuple[str, int]]:
    """Kind and compute capability of the entries of the first containers."""
    end, left = at + size, MAX_ENTRIES
    for _ in range(MAX_CONTAINERS):
        if at + 16 > end:
            return
        magic, _version, head, length = struct.unpack("<IHHQ", _take(handle, 16, at))
        if magic != _CONTAINER or head < 16:
            return
        place, stop = at + head, at + head + length
        while place + 64 <= min(stop, end) and left:
            left -= 1
            kind, _flags, entry_head, payload = struct.unpack("<HHIQ", _take(handle, 16, place))
            (number,) = struct.unpack("<I", _take(handle, 4, place + 28))
            if kind in _KINDS and 0 < number < 1000:
                yield _KINDS[kind], number
            if entry_head + payload <= 0:
                return
            place += entry_head + payload
        at = stop + -stop % 8
