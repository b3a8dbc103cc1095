"""What the platform tags of a wheel say."""

from __future__ import annotations

import re
from collections.abc import Sequence

_LINUX = re.compile(r"(?:many)?linux(?:1|2010|2014|_2_\d+)?_(x86_64|aarch64)")
_GLIBC = re.compile(r"manylinux(?:(1|2010|2014)|_2_(\d+))_")
_LEGACY = {"1": 5, "2010": 12, "2014": 17}
_OTHERS = {"win_amd64": "windows-x86_64", "win_arm64": "windows-aarch64", "any": "any"}


def platform_of(tags: Sequence[str]) -> str:
    """The platform as the facts name it; "any" for all, "" for one that no fact is about."""
    found = (f"linux-{linux[1]}" if (linux := _LINUX.fullmatch(tag)) else _OTHERS.get(tag, "") for tag in tags)
    return next(filter(None, found), "")


def glibc_of(tags: Sequence[str]) -> str:
    """The oldest C library that the tags allow."""
    found = [_LEGACY.get(known[1] or "", int(known[2] or 0)) for tag in tags if (known := _GLIBC.match(tag))]
    return f"2.{min(found)}" if found else ""
