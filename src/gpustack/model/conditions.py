"""The conditions of ``Step.done_when``: how an installer or a script recognizes that a step is done."""

from __future__ import annotations

import shlex
from typing import Literal, cast, get_args

from msgspec import Struct

NEVER = "never"
ConditionKind = Literal["package", "absent", "held", "file", "path", "link", "succeeds"]

_ARROW = " -> "
_KINDS = frozenset(get_args(ConditionKind))


class Condition(Struct, frozen=True):
    """One condition; ``words`` by its kind.

    package: NAME [VERSION], installed in that version (or in a packaging revision of it) or in any
    absent: NAME, a package that is not installed
    held: NAME, kept at its version by ``apt-mark hold`` or ``zypper addlock``
    file: PATH SHA256
    path: PATH, whatever it is
    link: PATH TARGET, a symbolic link to exactly that text
    succeeds: a command that reads only and ends with 0
    """

    kind: ConditionKind
    words: tuple[str, ...]


def conditions(done_when: str) -> tuple[Condition, ...]:
    """The conditions that must all hold; () if a step is never known to be done, or a line is malformed."""
    found = [_parsed(line) for line in done_when.split("\n")]
    return tuple(one for one in found if one is not None) if all(found) else ()


def spell(*found: Condition) -> str:
    """The conditions as the text of ``done_when``; "never" without any, or if one is not a single line."""
    if not found or any("\n" in word or not word for one in found for word in one.words):
        return NEVER
    return "\n".join(f"{one.kind} {_text(one)}" for one in dict.fromkeys(found))


def _text(one: Condition) -> str:
    if one.kind == "succeeds":
        return shlex.join(one.words)
    return (_ARROW if one.kind == "link" else " ").join(one.words)


def _parsed(line: str) -> Condition | None:
    kind, _, rest = line.partition(" ")
    if kind not in _KINDS or not rest:
        return None
    known = cast("ConditionKind", kind)
    match known:
        case "succeeds":
            try:
                words = tuple(shlex.split(rest))
            except ValueError:
                return None
        case "file":
            path, _, digest = rest.rpartition(" ")
            words = (path, digest)
        case "link":
            path, _, target = rest.partition(_ARROW)
            words = (path, target)
        case "path":
            words = (rest,)
        case _:
            words = tuple(rest.split(" "))
    return Condition(known, words) if all(words) else None
