"""The binary form of protobuf messages, as far as the v1 protocol requires it: numbers, texts and nested messages."""

from __future__ import annotations

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LENGTHS = {_FIXED64: 8, _FIXED32: 4}
_LONGEST_VARINT = 10
Decoded = dict[int, list[int | bytes]]


def encoded(number: int, value: int | str | bytes) -> bytes:
    """Field ``number`` of a message: a number from 0, a text, or a nested message."""
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def decoded(data: bytes) -> Decoded:
    """The fields of a message by number, each with all its values. Raises ValueError where it is not a message."""
    found: Decoded = {}
    place = 0
    while place < len(data):
        key, place = _read_varint(data, place)
        kind = key & 7
        value: int | bytes
        if kind == _VARINT:
            value, place = _read_varint(data, place)
        elif kind == _BYTES or kind in _LENGTHS:
            length = _LENGTHS.get(kind, -1)
            if length < 0:
                length, place = _read_varint(data, place)
            value = data[place : place + length]
            if len(value) < length:
                msg = "the message is truncated"
                raise ValueError(msg)
            place += length
        else:
            msg = f"{kind} is not a kind of field"
            raise ValueError(msg)
        found.setdefault(key >> 3, []).append(value)
    return found


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for step, byte in enumerate(data[place : place + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * step
        if byte < 0x80:
            return value, place + step + 1
    msg = "the message is truncated"
    raise ValueError(msg)


def number_of(message: Decoded, field: int) -> int:
    """The last value of a numeric field; 0, protobuf's default, without one."""
    value = message.get(field, [0])[-1]
    return value if isinstance(value, int) else 0


def bytes_of(message: Decoded, field: int) -> bytes:
    """The last value of a text or nested message; empty without one."""
    value = message.get(field, [b""])[-1]
    return value if isinstance(value, bytes) else b""


def messages_of(message: Decoded, field: int) -> list[Decoded]:
    """The nested messages of a repeated field. Raises ValueError where one is not a message."""
    return [decoded(value) for value in message.get(field, []) if isinstance(value, bytes)]
