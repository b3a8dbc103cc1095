"""File names as text for a journal: Linux allows any bytes in a name, JSON only whole characters."""

from __future__ import annotations

import os
import re

_ODD = re.compile("[\udc80-\udcff]")
_WRITTEN = re.compile("\0([0-9a-f]{2})")


def safe(name: str) -> str:
    """A name as Python decodes it, with each byte that is not UTF-8 as NUL and two digits: no name contains NUL."""
    return name if name.isascii() else _ODD.sub(lambda found: f"\0{ord(found[0]) - 0xDC00:02x}", name)


def native(name: str) -> str:
    """The inverse of ``safe``: the name for Python's own functions."""
    return _WRITTEN.sub(lambda found: chr(0xDC00 + int(found[1], 16)), name) if "\0" in name else name


def beside(name: str, ending: str) -> str:
    """The name of the hidden file that is written before it replaces ``name``: 255 bytes at most."""
    short = os.fsencode(name)[:200].decode("utf-8", "surrogateescape")
    return f".{short}.{ending}"
