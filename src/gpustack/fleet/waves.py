"""How many hosts at a time, and how many may fail: numbers and percentages of all hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gpustack.errors import UsageError

_NUMBER = re.compile(r"(\d{1,9})(%?)")


def parse_waves(text: str, total: int) -> list[int]:
    """How many hosts are done after each wave: "1,5%,25%,100%" of 200 hosts is 1, 10, 50, 200. Raises UsageError."""
    ends: list[int] = []
    for word in text.split(","):
        end = max(1, _count(word, total, "--waves"))
        if not ends or end > ends[-1]:
            ends.append(min(end, total))
    if ends[-1] < total:
        ends.append(total)
    return ends


def parse_limit(text: str, total: int) -> int:
    """How many hosts may fail before the rest is not begun. Raises UsageError."""
    return _count(text, total, "--max-fail")


def _count(word: str, total: int, option: str) -> int:
    match = _NUMBER.fullmatch(word.strip())
    if match is None or (match[2] and int(match[1]) > 100):
        msg = f"{word!r} is neither a number nor a percentage of hosts"
        raise UsageError(
            msg, code="invalid-value", where=option, hint="for example: --waves 1,5%,25%,100% --max-fail 1%"
        )
    return total * int(match[1]) // 100 if match[2] else int(match[1])


def in_turn(classes: Iterable[Sequence[str]]) -> list[str]:
    """The hosts of all classes in turn, so that early waves have hosts of every class."""
    left = [list(hosts) for hosts in classes if hosts]
    found: list[str] = []
    while left:
        found += [hosts.pop(0) for hosts in left]
        left = [hosts for hosts in left if hosts]
    return found
