"""What a library says that it needs, wherever its names lie."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from gpustack.detect.environments.elf import read_library

NEEDED = ("libcudart.so.12", "libcublas.so.12")


def library(gap: int) -> bytes:
    """An ELF file of three sections, whose names of libraries lie ``gap`` bytes behind the others."""
    strings = b"\0" * gap + b"".join(name.encode() + b"\0" for name in NEEDED)
    places = [gap + strings[gap:].index(name.encode()) for name in NEEDED]
    dynamic = b"".join(struct.pack("<qQ", 1, place) for place in places) + struct.pack("<qQ", 0, 0)
    titles = b"\0.dynamic\0.dynstr\0.shstrtab\0"
    parts, at = [], 64
    for text, name in ((dynamic, 1), (strings, 10), (titles, 18)):
        parts.append(struct.pack("<II QQQQ 24x", name, 1, 0, 0, at, len(text)))
        at += len(text)
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q10xHHH", head, 40, at, 64, 3, 2)
    return bytes(head) + dynamic + strings + titles + b"".join(parts)


@pytest.mark.parametrize("gap", [1, 9 << 20], ids=["near", "behind megabytes of symbols, as patched wheels have them"])
def test_the_libraries_that_a_library_loads(tmp_path: Path, gap: int) -> None:
    (tmp_path / "lib.so").write_bytes(library(gap))
    handle = os.open(tmp_path / "lib.so", os.O_RDONLY)
    try:
        content = read_library(handle)
    finally:
        os.close(handle)
    assert content is not None
    assert content.needed == NEEDED
