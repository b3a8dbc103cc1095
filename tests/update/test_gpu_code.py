"""The heads of fat binaries: which machine code and PTX a library has, and which of it later GPUs run."""

from __future__ import annotations

import struct
from io import BytesIO

import pytest

from frameworks.gpu_code import common, counted

OWN = 0x100000


def entry(kind: int, architecture: int, flags: int = 0, head: int = 64) -> bytes:
    start = struct.pack("<HHIQ", kind, 0x101, head, 8) + bytes(12) + struct.pack("<I", architecture)
    rest = bytes(8) + struct.pack("<Q", flags) if head >= 48 else b""
    return (start + rest).ljust(head, b"\0") + b"contents"


def library(*entries: bytes) -> BytesIO:
    body = b"".join(entries)
    return BytesIO(b"\x7fELF" + struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body + b"rest")


@pytest.mark.parametrize(
    ("entries", "sass", "ptx"),
    [
        ((entry(2, 80), entry(2, 90), entry(1, 90)), ["8.0", "9.0"], ["9.0"]),
        ((entry(2, 80), entry(1, 90, OWN | 0x2011)), ["8.0"], []),
        ((entry(2, 90, OWN | 0x11),), ["9.0"], []),
        ((entry(1, 75, head=32),), [], ["7.5"]),
        ((), [], []),
    ],
)
def test_ptx_of_a_target_of_its_own_is_none_for_later_gpus(
    entries: tuple[bytes, ...], sass: list[str], ptx: list[str]
) -> None:
    """onnxruntime-gpu 1.23.0 has PTX of sm_90a alone: it fails on Blackwell, as its own repair (1.23.2) says."""
    containers, found = counted(library(*entries))
    assert (common(containers, found, "sass"), common(containers, found, "ptx")) == (sass, ptx)
