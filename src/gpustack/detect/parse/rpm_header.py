"""The header blob of an rpm database: a count of index entries, a size of data, the entries, the data."""

from __future__ import annotations

import struct

NAME, VERSION, RELEASE, EPOCH, VENDOR, ARCH = 1000, 1001, 1002, 1003, 1011, 1022
"""Tags of rpm's header format."""

_INT32, _STRING, _I18N = 4, 6, 9
_MAX_ENTRIES = 10_000
_MAX_TEXT = 500


def parse_header(blob: bytes) -> tuple[str, str, str, str, str, str] | None:
    """Name, epoch, version, release, architecture and vendor; None for a blob that is not a header.

    Absent values are empty strings.
    """
    if len(blob) < 8:
        return None
    entries, size = struct.unpack_from(">II", blob)
    start = 8 + 16 * entries
    if entries > _MAX_ENTRIES or start + size > len(blob):
        return None
    data = blob[start : start + size]
    found: dict[int, str] = {}
    for number in range(entries):
        tag, kind, offset, count = struct.unpack_from(">IIII", blob, 8 + 16 * number)
        if tag not in {NAME, VERSION, RELEASE, EPOCH, VENDOR, ARCH} or offset >= len(data):
            continue
        value = _value(data, kind, offset, count)
        if value is not None:
            found[tag] = value
    if not found.get(NAME) or not found.get(VERSION):
        return None
    return (
        found[NAME],
        found.get(EPOCH, ""),
        found[VERSION],
        found.get(RELEASE, ""),
        found.get(ARCH, ""),
        found.get(VENDOR, ""),
    )


def _value(data: bytes, kind: int, offset: int, count: int) -> str | None:
    if kind in {_STRING, _I18N}:
        end = data.find(b"\0", offset, offset + _MAX_TEXT)
        if end < 0:
            return None
        return data[offset:end].decode("utf-8", "replace").replace("\t", " ").replace("\n", " ")
    if kind == _INT32 and count and offset + 4 <= len(data):
        return str(struct.unpack_from(">I", data, offset)[0])
    return None
