"""Text as people see it: nothing in it controls a terminal, reverses the reading order, or is invisible."""

from __future__ import annotations

import re

_UNSEEN = frozenset(
    map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2800, 0x3164, *range(0xFE00, 0xFE10)))
) | frozenset(map(chr, (0xFFA0, *range(0xE0100, 0xE01F0))))
"""Characters that count as letters or marks but have no shape (Unicode: Default_Ignorable_Code_Point, and a blank)."""

_BLANK = re.compile("[\t\n\r \u00a0\u2000-\u200a\u202f\u205f\u3000]+")


def is_visible(text: str) -> bool:
    """Whether all of ``text`` is what it looks like; a line break is not."""
    return text.isprintable() and (text.isascii() or _UNSEEN.isdisjoint(text))


def visible(text: str) -> str:
    """Return ``text`` with every invisible character spelled out as an escape, except line breaks.

    These are control characters (C0, DEL, C1), those that change the direction of text, separators of lines and
    paragraphs, spaces of zero or other width, and what Unicode has not assigned.
    """
    if is_visible(text.replace("\n", "")):
        return text
    return "".join(one if one == "\n" or is_visible(one) else one.encode("unicode_escape").decode() for one in text)


def one_line(text: str) -> str:
    """Return ``text`` as one visible line for a comment or a table: line breaks become spaces."""
    return visible(_BLANK.sub(" ", text)).strip(" ")


def visible_json(text: str) -> str:
    """A JSON document with the same content, in which every such character in a string is a JSON escape."""
    if (text.isascii() and "\x7f" not in text) or is_visible(text.replace("\n", "")):
        return text
    return "".join(one if one == "\n" or is_visible(one) else _units(one) for one in text)


def _units(one: str) -> str:
    """One character as JSON escapes: one, or two surrogates."""
    raw = one.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{raw[at] << 8 | raw[at + 1]:04x}" for at in range(0, len(raw), 2))
