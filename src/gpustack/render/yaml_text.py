"""Our own values as YAML text: maps, lists, strings, numbers and booleans; every string round-trips exactly."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from gpustack.visible import is_visible

Value: TypeAlias = "str | bool | int | Sequence[Value] | Mapping[str, Value]"

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./+=@-]*(?: [A-Za-z0-9_./+=@(),;'%&!?*-][A-Za-z0-9_./+=@(),;'%&!?*-]*)*")
_WORD = re.compile(r"[A-Za-z_/][A-Za-z0-9_./+=@-]*")
_NOT_STRINGS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"})
_MEANT = {
    "\\": "\\\\",
    '"': '\\"',
    "\n": "\\n",
    "\t": "\\t",
    "\r": "\\r",
    "\0": "\\0",
    "\x85": "\\N",
    "\xa0": "\\_",
    "\u2028": "\\L",
    "\u2029": "\\P",
}
_BYTE, _PLANE = 0xFF, 0xFFFF
WIDTH = 116
"""Quoted strings are broken after a space before they exceed this width, if possible."""


class Unsafe(str):
    """A string with the tag ``!unsafe``: Ansible does not interpret templates in it."""

    __slots__ = ()


class Text(str):
    """A file's content: a literal block whenever possible, however long its lines are."""

    __slots__ = ()


class Flow(tuple[str, ...]):
    """Words on one line, in flow style."""

    __slots__ = ()


def lines(value: Value, indent: int = 0) -> list[str]:
    """A map or a list as lines of block style, ``indent`` spaces in. Empty ones use flow style."""
    pad = " " * indent
    if isinstance(value, Mapping):
        found: list[str] = []
        for key, inner in value.items():
            found += _entry(f"{pad}{scalar(key)}:", inner, indent)
        return found or [f"{pad}{{}}"]
    if isinstance(value, Sequence) and not isinstance(value, str):
        found = []
        for inner in value:
            found += _item(inner, indent)
        return found or [f"{pad}[]"]
    return [pad + scalar(value)]


def scalar(value: str | bool | int) -> str:  # noqa: FBT001 (a value, not a switch)
    """One value on one line: plain if unambiguous, else in double quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if _is_plain(value):
        return value
    return _tag(value) + quoted(value)


def quoted(text: str) -> str:
    """Return ``text`` in double quotes, on one line, with escapes for every character that YAML forbids or folds."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_MEANT.get(char) or (char if is_visible(char) else _escape(char)) for char in text) + '"'


def _escape(char: str) -> str:
    point = ord(char)
    if point <= _BYTE:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= _PLANE else f"\\U{point:08x}"


def _is_plain(text: str) -> bool:
    if isinstance(text, Unsafe):
        return False
    return len(text) <= WIDTH and _PLAIN.fullmatch(text) is not None and text.lower() not in _NOT_STRINGS


def _tag(text: str) -> str:
    return "!unsafe " if isinstance(text, Unsafe) else ""


def _entry(head: str, inner: Value, indent: int) -> list[str]:
    if isinstance(inner, str):
        return _string(head, inner, indent)
    if isinstance(inner, bool | int):
        return [f"{head} {scalar(inner)}"]
    if isinstance(inner, Flow):
        return _flow(head, inner, indent)
    if not inner:
        return [f"{head} {'{}' if isinstance(inner, Mapping) else '[]'}"]
    return [head, *lines(inner, indent + 2)]


def _item(inner: Value, indent: int) -> list[str]:
    head = " " * indent + "-"
    if isinstance(inner, str):
        return _string(head, inner, indent)
    if isinstance(inner, bool | int):
        return [f"{head} {scalar(inner)}"]
    if isinstance(inner, Flow):
        return _flow(head, inner, indent)
    if not inner:
        return [f"{head} {'{}' if isinstance(inner, Mapping) else '[]'}"]
    first, *rest = lines(inner, indent + 2)
    return [f"{head} {first.lstrip(' ')}", *rest]


def _flow(head: str, words: Flow, indent: int) -> list[str]:
    found, line = [], f"{head} ["
    for number, word in enumerate(words):
        shown = _in_flow(word) + ("," if number + 1 < len(words) else "]")
        if len(line) + len(shown) >= WIDTH and not line.endswith("["):
            found.append(line)
            line = " " * (indent + 4) + shown
        else:
            line += shown if line.endswith("[") else f" {shown}"
    return [*found, line if words else f"{line}]"]


def _in_flow(word: str) -> str:
    return word if _WORD.fullmatch(word) and word.lower() not in _NOT_STRINGS else _tag(word) + quoted(word)


def _string(head: str, text: str, indent: int) -> list[str]:
    if _is_block(text):
        body = [" " * (indent + 2) + line if line else "" for line in text.split("\n")]
        return [f"{head} |", *body[:-1]]
    if _is_plain(text) and len(head) + len(text) < WIDTH:
        return [f"{head} {text}"]
    return _folded(f"{head} {_tag(text)}", quoted(text), indent + 2)


def _is_block(text: str) -> bool:
    """Whether a literal block preserves the text: whole lines, printable, no space at a line's end."""
    if "\n" not in text or not text.endswith("\n") or text.endswith("\n\n") or text[0] in " \n" or _tag(text):
        return False
    body = text[:-1].split("\n")
    longest = sys.maxsize if isinstance(text, Text) else WIDTH
    return all(is_visible(line) and not line.endswith(" ") and len(line) <= longest for line in body)


def _folded(head: str, text: str, indent: int) -> list[str]:
    """A quoted scalar over several lines: an escaped line break adds nothing, and every space stays on its line."""
    found: list[str] = []
    line, pad = head, " " * indent
    for word in _words(text, WIDTH + 34 - len(head)):
        if len(line) + len(word) > WIDTH and line not in {head, pad}:
            found.append(line + "\\")
            line = pad
        line += word
    return [*found, line]


def _words(text: str, longest: int) -> list[str]:
    """Where a quoted scalar may be broken: after spaces, and in words too long for any line after slashes."""
    found: list[str] = []
    for word in re.findall(r"[^ ]* *", text)[:-1]:
        found += [word] if len(word) <= longest else re.findall(r"[^/]+/*|/+", word)
    return found
