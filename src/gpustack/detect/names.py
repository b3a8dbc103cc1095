"""Names of packages by a pattern: alternatives, of which most are a name or the beginning of names.

Every host answers dozens of such questions about its packages. Only an alternative that is more than plain letters is a
regular expression, which is compiled when a name has its first letters.
"""

from __future__ import annotations

from functools import lru_cache

from gpustack.patterns import later

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_/")

_UNUSUAL = ("\\|", "\\[", "\\]", "[]", "[^]", "\\\\")


class Names:
    """The names that fully match one of the alternatives, or are among ``others``."""

    def __init__(self, pattern: str, others: tuple[str, ...] = ()) -> None:
        whole, starts, rest = [*others], [], []
        alternatives = _alternatives(pattern)
        if not alternatives:
            rest.append(("", later(pattern)))
        for text in alternatives:
            letters, end = _letters(text)
            if end == len(text):
                whole.append(letters)
            elif text[end:] == ".*":
                starts.append(letters)
            else:
                rest.append((letters, later(text)))
        self._whole = frozenset(whole)
        self._starts = tuple(starts)
        self._rest = tuple(rest)
        self.heads = (*whole, *starts, *(letters for letters, _ in rest))
        """Each name begins with one of these."""

    def fullmatch(self, name: str) -> bool:
        """Whether the name is one of them."""
        return (
            name in self._whole
            or name.startswith(self._starts)
            or any(name.startswith(head) and wanted.fullmatch(name) is not None for head, wanted in self._rest)
        )


@lru_cache(maxsize=128)
def named(pattern: str) -> Names:
    """The names of a pattern, taken apart once."""
    return Names(pattern)


def _alternatives(pattern: str) -> list[str]:
    """The alternatives of a pattern of plain groups; none of one with flags, assertions or escaped brackets."""
    if any(text in pattern for text in _UNUSUAL) or pattern.count("(") != pattern.count("(?:"):
        return []
    found, depth, start = [], 0, 0
    for at, char in enumerate(pattern):
        depth += (char in "([") - (char in ")]")
        if char == "|" and not depth:
            found.append(pattern[start:at])
            start = at + 1
    return [*found, pattern[start:]]


def _letters(text: str) -> tuple[str, int]:
    """The plain letters that every match of an alternative begins with, and where they end."""
    if _PLAIN.issuperset(text):
        return text, len(text)
    found, at = "", 0
    while at < len(text):
        size = 2 if text[at] == "\\" and text[at + 1 : at + 2] in {"+", ".", "-"} else 1
        char = text[at + size - 1]
        if (size == 1 and char not in _PLAIN) or text[at + size : at + size + 1] in {"?", "*", "{"}:
            break
        found += char
        at += size
    return found, at
