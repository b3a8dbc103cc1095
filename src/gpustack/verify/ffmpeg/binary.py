"""The NVENC API that a program was compiled for, read out of its machine code.

Every structure that FFmpeg passes to the driver begins with a word made of the API's numbers and the structure's own
(``major | structure << 16 | minor << 24 | 7 << 28``). On x86-64 these words stand in the code as they are, and a
program that was compiled for one API holds many of them: that is how the need is known before anything is run.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

_WORD = re.compile(rb"[\x05-\x20]\x00[\x01-\x0c][\x70-\x73\xf0-\xf3]")
_NVENC = b"nvenc API version"
_OPENING = {(1, 0), (2, 0)}
"""The structures that every NVENC program fills: the session's parameters and the list of functions."""
_ENOUGH = 5
"""The number of different structure words that must be seen; by chance a large program has three or four."""


class Compiled(Struct, frozen=True):
    """The API found in a file. ``api`` is "" where the file has NVENC code of unknown version."""

    path: str
    api: str


def nvenc_api(path: Path) -> Compiled | None:
    """The NVENC API that the program or library at ``path`` was compiled for; None if it contains no NVENC code.

    Raises OSError if the file cannot be read.
    """
    with path.open("rb") as stream:
        if path.stat().st_size == 0:
            return None
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data.find(_NVENC) < 0:
                return None
            return Compiled(str(path), api_of(_WORD.findall(data)))


def api_of(words: Iterable[bytes]) -> str:
    """The API that most structure words name, as "13.1"; "" where none stands out."""
    seen: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for word in words:
        seen.setdefault((word[0], word[3] & 0xF), set()).add((word[2], word[3] >> 7))
    likely = {api: kinds for api, kinds in seen.items() if kinds >= _OPENING and len(kinds) >= _ENOUGH}
    if not likely:
        return ""
    ranked = sorted(likely, key=lambda api: len(likely[api]), reverse=True)
    if len(ranked) > 1 and len(likely[ranked[0]]) == len(likely[ranked[1]]):
        return ""
    return f"{ranked[0][0]}.{ranked[0][1]}"
