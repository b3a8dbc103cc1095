"""Bodies that are not what the vendor published: every way in which a body has been seen to go wrong, by a seed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import NamedTuple

Mutation = Callable[[random.Random, bytes], bytes]

PAGE = b"<!DOCTYPE html><html><title>Service unavailable</title></html>"


class Mutant(NamedTuple):
    kind: str
    data: bytes


def mutant(seed: int, data: bytes) -> Mutant:
    """One mutant of a body; the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311 (no secret)
    name = chance.choice(sorted(MUTATIONS))
    return Mutant(name, MUTATIONS[name](chance, data))


def _at(chance: random.Random, data: bytes, pattern: bytes) -> re.Match[bytes] | None:
    found = list(re.finditer(pattern, data[: 1 << 20]))
    return chance.choice(found) if found else None


def _replaced(chance: random.Random, data: bytes, pattern: bytes, new: Callable[[bytes], bytes]) -> bytes:
    place = _at(chance, data, pattern)
    return data if place is None else data[: place.start()] + new(place.group()) + data[place.end() :]


def _digit(chance: random.Random, data: bytes) -> bytes:
    return _replaced(chance, data, rb"[0-9]", lambda _: b"%d" % chance.randrange(10))


def _letter(chance: random.Random, data: bytes) -> bytes:
    return _replaced(chance, data, rb"[a-z]", lambda _: bytes([chance.randrange(97, 123)]))


def _byte(chance: random.Random, data: bytes) -> bytes:
    place = chance.randrange(len(data))
    return data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :]


def _line(chance: random.Random, data: bytes, times: int) -> bytes:
    lines = data.splitlines(keepends=True)
    place = chance.randrange(len(lines))
    return b"".join([*lines[:place], *[lines[place]] * times, *lines[place + 1 :]])


def _swapped(chance: random.Random, data: bytes) -> bytes:
    one, two = _at(chance, data, rb"[0-9][0-9a-f.]{3,}"), _at(chance, data, rb"[0-9][0-9a-f.]{3,}")
    if one is None or two is None or one.start() >= two.start():
        return _digit(chance, data)
    return data[: one.start()] + two.group() + data[one.end() : two.start()] + one.group() + data[two.end() :]


MUTATIONS: dict[str, Mutation] = {
    "another byte": _byte,
    "another digit": _digit,
    "another letter": _letter,
    "a line gone": lambda chance, data: _line(chance, data, 0),
    "a line twice": lambda chance, data: _line(chance, data, 2),
    "cut": lambda chance, data: data[: chance.randrange(len(data))],
    "empty": lambda _chance, _data: b"",
    "nested deeply": lambda _chance, _data: b'{"a":' * 100_000,
    "a page": lambda _chance, _data: PAGE,
    "two values swapped": _swapped,
    "unknown key": lambda chance, data: _replaced(chance, data, rb"\{", lambda _: b'{"attestation": null, '),
    "value of another type": lambda chance, data: _replaced(chance, data, rb'"[^"\n]*"(?=[,\n}\]])', lambda _: b"[17]"),
    "value null": lambda chance, data: _replaced(chance, data, rb'"[^"\n]*"(?=[,\n}\]])', lambda _: b"null"),
    "a number of thousands of digits": lambda chance, data: _replaced(chance, data, rb"[0-9]+", lambda _: b"7" * 9000),
}
