"""Versions as the vendor spells them, and ranges over them.

``packaging`` prints 580.95.05 as 580.95.5 and 25.08 as 25.8, so a version here keeps its text and is only *compared*
by a key. Ranges use the clauses of PEP 440 (``>=12.4,<13``, ``==9.*``, ``~=1.4``, ``!=1.2``), and ``|`` joins
alternatives: ``==11.8.* | ==12.*``.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache, total_ordering

_NUMBERS = re.compile(r"\d+(?:\.\d+)*")
_DIGITS = re.compile(r"\d+")
_LONGEST = 8
"""Numbers in a suffix are compared as numbers (5.14.0-70 is before 5.14.0-687): they are filled up to this length."""

_CLAUSE = re.compile(r"(===?|!=|~=|>=|<=|<|>)\s*([0-9A-Za-z][0-9A-Za-z.+-]*?)(\.\*)?")

Key = tuple[tuple[int, ...], int, str]


def version_key(text: str) -> Key:
    """The key by which versions are ordered: numbers first, then a suffix (``rc1`` before none, ``.post1`` after)."""
    return _take_apart(text)[1]


def _take_apart(text: str) -> tuple[tuple[int, ...], Key]:
    """The numbers as written, and the key. Raises ValueError if the text does not start with a number."""
    match = _NUMBERS.match(text)
    if match is None:
        msg = f"{text!r} is not a version: it has to start with a number"
        raise ValueError(msg)
    numbers = tuple(map(int, match.group().split(".")))
    length = len(numbers)
    while length > 1 and numbers[length - 1] == 0:
        length -= 1
    suffix = _DIGITS.sub(lambda digits: digits[0].zfill(_LONGEST), text[match.end() :])
    rank = 1 if not suffix else 2 if suffix.startswith((".post", "-", "+", "u")) else 0
    return numbers, (numbers[:length], rank, suffix)


@total_ordering
class Version:
    """One version in the vendor's spelling. Equal when the numbers are equal: 13.0 is 13.0.0."""

    __slots__ = ("key", "numbers", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.numbers, self.key = _take_apart(text)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Version({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.key == other.key

    def __lt__(self, other: Version) -> bool:
        return self.key < other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def has_prefix(self, prefix: tuple[int, ...]) -> bool:
        """Whether the numbers begin with ``prefix``, as ``==12.4.*`` requires; missing numbers count as 0."""
        padded = self.numbers + (0,) * (len(prefix) - len(self.numbers))
        return padded[: len(prefix)] == prefix


class Clause:
    """One comparison of a range. Compares keys, so ``==13.0`` holds for 13.0.0."""

    __slots__ = ("operator", "version", "wildcard")

    def __init__(self, operator: str, version: Version, *, wildcard: bool) -> None:
        self.operator = operator
        self.version = version
        self.wildcard = wildcard

    def holds(self, candidate: Version) -> bool:
        bound = self.version
        match self.operator:
            case "==":
                return candidate.has_prefix(bound.numbers) if self.wildcard else candidate.key == bound.key
            case "!=":
                return not (candidate.has_prefix(bound.numbers) if self.wildcard else candidate.key == bound.key)
            case ">=":
                return candidate.key >= bound.key
            case "<=":
                return candidate.key <= bound.key
            case ">":
                return candidate.key > bound.key
            case "<":
                return candidate.key < bound.key
            case _:  # "~=": at least this, and the same in all but the last number
                return candidate.key >= bound.key and candidate.has_prefix(bound.numbers[:-1])

    def __str__(self) -> str:
        return f"{self.operator}{self.version}{'.*' if self.wildcard else ''}"

    def excludes(self, other: Clause) -> bool:
        """Whether no version at all is in both: ``==11.8.*`` and ``==12.4.*``, ``>=12.4`` and ``<12``."""
        if "!=" not in {self.operator, other.operator}:
            return max(self._low, other._low) > min(self._high, other._high)
        hole, rest = (self, other) if self.operator == "!=" else (other, self)
        if rest.operator != "==" or hole.holds(rest.version):
            return False
        return not rest.wildcard or (hole.wildcard and len(rest.version.numbers) >= len(hole.version.numbers))

    @property
    def _low(self) -> tuple[Key, int]:
        """Where the versions begin, with 1 if only those after it are in."""
        if self.operator in {"<", "<="}:
            return ((), 0, ""), 0
        if self.wildcard:
            return (self.version.key[0], 0, ""), 0
        return self.version.key, int(self.operator == ">")

    @property
    def _high(self) -> tuple[Key, int]:
        """Where the versions end, with -1 if only those before it are in."""
        if self.operator in {">", ">="}:
            return ((sys.maxsize,), 0, ""), 0
        if not self.wildcard and self.operator != "~=":
            return self.version.key, -int(self.operator == "<")
        line = self.version.numbers if self.wildcard else self.version.numbers[:-1]
        return ((*line[:-1], line[-1] + 1), 0, ""), -1


class Range:
    """A set of versions: alternatives (joined by ``|``) of clauses (joined by ``,``). Empty text means any version."""

    __slots__ = ("alternatives", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.alternatives = tuple(_parse_clauses(part, text) for part in text.split("|"))

    def __contains__(self, version: Version) -> bool:
        return any(all(clause.holds(version) for clause in clauses) for clauses in self.alternatives)

    def __repr__(self) -> str:
        return f"Range({self.text!r})"

    @property
    def contradiction(self) -> tuple[Clause, Clause] | None:
        """Two clauses that no version at all meets together; None without such, or with alternatives."""
        clauses = self.alternatives[0] if len(self.alternatives) == 1 else ()
        pairs = ((one, other) for i, one in enumerate(clauses) for other in clauses[i + 1 :])
        return next(((one, other) for one, other in pairs if one.excludes(other)), None)

    @property
    def is_any(self) -> bool:
        return any(not clauses for clauses in self.alternatives)


def _parse_clauses(part: str, whole: str) -> tuple[Clause, ...]:
    clauses = []
    for raw in part.split(","):
        text = raw.strip()
        if not text:
            continue
        match = _CLAUSE.fullmatch(text)
        if match is None or match[1] == "===" or (match[3] and match[1] not in {"==", "!="}):
            msg = f"{text!r} in {whole!r} is not a version clause such as >=12.4 or ==9.*"
            raise ValueError(msg)
        version = Version(match[2])
        if match[1] == "~=" and len(version.numbers) < 2:
            msg = f"{text!r} in {whole!r}: ~= needs at least two numbers"
            raise ValueError(msg)
        clauses.append(Clause(match[1], version, wildcard=bool(match[3])))
    return tuple(clauses)


@lru_cache(maxsize=8192)
def version(text: str) -> Version:
    """The version in ``text``. Raises ValueError if it does not start with a number."""
    return Version(text)


@lru_cache(maxsize=8192)
def version_range(text: str) -> Range:
    """The range in ``text``. Raises ValueError with the invalid clause."""
    return Range(text)


@lru_cache(maxsize=65536)
def is_within(candidate: str, range_text: str) -> bool:
    """Whether the version ``candidate`` is in the range ``range_text``."""
    return version(candidate) in version_range(range_text)
