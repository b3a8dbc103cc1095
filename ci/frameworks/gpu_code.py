"""The compute capabilities inside a library: the heads of its fat binaries, read from a stream.

A fat binary is a container (magic number, size) of entries; each entry names its kind (PTX or machine code) and its
architecture even if its content is compressed.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from typing import IO

_MAGIC = struct.pack("<I", 0xBA55ED50)
_HEAD = struct.Struct("<HHQ")
_ENTRY = struct.Struct("<HHIQ")
_KINDS = {1: "ptx", 2: "sass"}
_PTX = 1
_WITH_FLAGS = 48
_OWN = 0x100000
"""Marks code of a target such as sm_90a, whose PTX no later GPU runs: such PTX is not counted."""

_SHARE = 0.2
_CHUNK = 1 << 22
ENOUGH = 400
"""Containers after which the rest of a library is not read: each source file of it makes one."""

_FLAGS = re.compile(rb"(?:sm|compute)_\d+[a-z]?(?:[ ;](?:sm|compute)_\d+[a-z]?)+")


def stated_flags(content: bytes) -> tuple[list[str], list[str]]:
    """The machine code and PTX that a build of PyTorch states of itself: `torch.cuda.get_arch_list()`."""
    words = {word for text in _FLAGS.findall(content) for word in re.split(rb"[ ;]", text)}
    return tuple(  # type: ignore[return-value]  # two of them
        in_order({int(found[1]) for word in words if (found := re.fullmatch(rb"%s_(\d+)[a-z]?" % kind, word))})
        for kind in (b"sm", b"compute")
    )


def counted(stream: IO[bytes], enough: int = ENOUGH) -> tuple[int, Counter[tuple[str, int]]]:
    """The number of fat binaries of a library, and how many of them hold each kind and architecture."""
    found: Counter[tuple[str, int]] = Counter()
    containers, buffer = 0, b""
    while containers < enough and (chunk := stream.read(_CHUNK)):
        buffer += chunk
        place = 0
        while (start := buffer.find(_MAGIC, place)) >= 0 and start + 16 <= len(buffer):
            edition, head, size = _HEAD.unpack_from(buffer, start + 4)
            if edition != 1 or head != 16:
                place = start + 4
                continue
            end = start + head + size
            while end > len(buffer) and (chunk := stream.read(max(_CHUNK, end - len(buffer)))):
                buffer += chunk
            kinds = _entries(buffer[start + head : end])
            containers += bool(kinds)
            found.update(kinds)
            place = end
        buffer = buffer[max(place, start if start >= 0 else len(buffer) - 3) :]
    return containers, found


def _entries(content: bytes) -> set[tuple[str, int]]:
    found, place = set(), 0
    while place + 32 <= len(content):
        kind, _, head, size = _ENTRY.unpack_from(content, place)
        if kind not in _KINDS or head < 32:
            break
        flags = struct.unpack_from("<Q", content, place + 40)[0] if head >= _WITH_FLAGS else 0
        if kind != _PTX or not flags & _OWN:
            found.add((_KINDS[kind], struct.unpack_from("<I", content, place + 28)[0]))
        place += head + size
    return found


def common(containers: int, found: Counter[tuple[str, int]], kind: str) -> list[str]:
    """The architectures of a kind that a fair share of a library's fat binaries have: the rest are special cases."""
    return in_order(
        {number for (name, number), times in found.items() if name == kind and times >= containers * _SHARE}
    )


def in_order(numbers: set[int]) -> list[str]:
    """Architectures such as 86 and 120 as compute capabilities, in order."""
    return [f"{number // 10}.{number % 10}" for number in sorted(numbers)]
