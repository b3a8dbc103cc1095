"""The functions that rendered scripts consist of, and how they are called."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from functools import cache

from gpustack.model.conditions import Condition
from gpustack.model.plan import Plan
from gpustack.resources import template

_NAME = re.compile(r"(?<![-\w])[a-z_0-9]+")
_PROGRAMS = {
    "package": ("has_deb", "has_rpm"),
    "absent": ("no_deb", "no_rpm"),
    "held": ("is_held", "is_locked"),
    "file": ("has_sum", "has_sum"),
    "path": ("is_path", "is_path"),
    "link": ("is_link", "is_link"),
}
"""The programs that query the package database, for Debian packages and for rpm."""

_EXACT = ("has_upstream_deb", "has_upstream_rpm")


@cache
def _library(text: str) -> dict[str, tuple[str, frozenset[str]]]:
    """The functions that scripts consist of: the text of each, and the words in it."""
    found = {}
    for block in re.split(r"\n\n(?=#|[a-z_]+\(\))", text.rstrip("\n")):
        name = next(line.partition("(")[0] for line in block.split("\n") if not line.startswith("#"))
        found[name] = (block + "\n", frozenset(_NAME.findall(block)))
    return found


def helpers(blocks: Iterable[str]) -> list[str]:
    """The functions that these blocks call, directly or through others."""
    library = _library(template("shell/helpers.sh"))
    called: set[str] = set()
    waiting = [word for block in blocks for word in _NAME.findall(block) if word in library]
    while waiting:
        name = waiting.pop()
        if name not in called:
            called.add(name)
            waiting += [word for word in library[name][1] if word in library]
    return [text for name, (text, _) in library.items() if name in called]


def spoken(text: str) -> str:
    """Text for people as one word; in double quotes if it contains what looks like an expansion, and is not."""
    if "$" not in text and "`" not in text:
        return shlex.quote(text)
    return '"' + re.sub(r'([\\"$`])', r"\\\1", text) + '"'


def program(plan: Plan, one: Condition) -> tuple[str, ...]:
    """The function that tests a condition, with its words."""
    is_exact = one.kind == "package" and len(one.words) > 1
    programs = _EXACT if is_exact else _PROGRAMS[one.kind]
    return (programs[plan.host.os.family != "apt"], *one.words)
