"""Ways to spoil an input. All of them draw from one generator: its seed is all it takes to have the same input again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

Place = tuple[str | int, ...]

CONTROL = ("\x1b[2J\x1b[5A", "\x07\r", "\x9b31m", "\u202egpj.exe\u2066", "\u2028\u200b", "\x7f\t\x08")
"""What acts on a terminal, turns the direction of text around, or hides."""

PATHS = (
    "/", "", ".", "..", "//", "/.", "/..", "relative/path", "../../../etc/passwd", "/a/../../b", "/etc", "/etc/", "/dev/null",
    "/proc/self/mem", "~/x", "-rf", "/etc/\n", "/opt/" + "n" * 300, "/" + "/".join(["deep"] * 1200), "/opt/nul\0", "C:\\x",
    "/etc/os-release/below", "/var/lib/gpustack/runs", "*",
)  # fmt: skip

WORDS = (
    "0", "-1", "0644", "04755", "9999", "rwx", "0o644", " 644", "\u0661", "1e3", "nan", "true", "null", "none", "$(id)", "`id`",
    "it's", "{{ 7 * 7 }}", "&a *a", "<<EOF", "99999999999999999999.1", "12.4", "9.x", ">=1,<0", "==", "ubuntu24.04", "x86_64",
    "apt", "dnf", "zypper", "reboot", "manual", "package x 1\npath /", "file /x zz", "https://[::1", "https://a:99999999/x",
    "file:///etc/passwd", "http://127.0.0.1:9/x", "\ud800", "\udcff\udcfe", "A\u0301" * 40, "\U0001f642", "#", "%s%n", "---",
)  # fmt: skip

LONG = ("y" * 300, "x" * 5_000, "z/" * 2_500, "line\n" * 1_000, "9" * 5_000)

TEXTS = (*CONTROL, *PATHS, *WORDS, *LONG, "\0", "a\0b", " ", "\n", "\r\n")

RAW = {
    "@deep list@": "[" * 50_000 + "]" * 50_000,
    "@deep map@": '{"a":' * 3_000 + "1" + "}" * 3_000,
    "@digits@": "9" * 5_000,
    "@exponent@": "1e999",
    "@not a number@": "NaN",
    "@no text@": "'x'",
}
"""What no JSON writer writes, each with the text that stands for it until the document is written."""

OTHERS: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 2**200, 1.5, -0.0, 1e300, [], {}, [[]], [None], [""], {"": ""},
    {"a": {"b": []}}, ["a", 1, None], *RAW,
)  # fmt: skip


def written(document: Any) -> bytes:
    """The document as JSON, or as something that only looks like it."""
    text = json.dumps(document)
    for mark, raw in RAW.items():
        text = text.replace(json.dumps(mark), raw)
    return text.encode()


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """The place of everything in a document but itself."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*place, key)
        yield from places(inner, (*place, key))


def at(document: Any, place: Place) -> Any:
    for key in place:
        document = document[key]
    return document


def chosen(rng: Random, document: Any) -> Place | None:
    """A place of a field that is drawn first, so that a field which stands once is met as often as one of many."""
    fields: dict[tuple[str, ...], list[Place]] = {}
    for place in places(document):
        fields.setdefault(tuple(str(key) for key in place if isinstance(key, str)), []).append(place)
    return rng.choice(fields[rng.choice(sorted(fields))]) if fields else None


def restructured(rng: Random, document: Any) -> None:
    """Change one thing in a document of maps, lists and values: mostly into what a reader of kinds alone lets through."""
    place = chosen(rng, document)
    if place is None:
        return
    around, key = at(document, place[:-1]), place[-1]
    other = chosen(rng, document)
    match rng.randrange(16):
        case 0:
            del around[key]
        case 1 if isinstance(around, list):
            around.insert(rng.randrange(len(around) + 1), around[key])
        case 1:
            around[rng.choice(TEXTS)] = around[key]
        case 2 if other is not None:
            around[key] = json.loads(json.dumps(at(document, other)))
        case 3:
            around[key] = rng.choice(OTHERS)
        case _:
            around[key] = alike(rng, around[key])


def alike(rng: Random, value: Any) -> Any:
    """Another value of the same kind."""
    match value:
        case bool():
            return not value
        case int():
            return rng.choice((0, -1, value + 1, 2**31, 2**63, 2**70))
        case list():
            return rng.sample(value, rng.randrange(len(value) + 1))
        case dict():
            restructured(rng, value)
            return value
        case str() if rng.randrange(3) == 0:
            return respelled(rng, value)
        case _:
            return rng.choice(TEXTS)


def respelled(rng: Random, text: str) -> str:
    """The text with something put in, taken out or doubled."""
    start = rng.randrange(len(text) + 1)
    end = min(len(text), start + rng.randrange(6))
    return text[:start] + rng.choice((*TEXTS, "", text[start:end] * 2)) + text[end:]


def damaged(rng: Random, content: bytes) -> bytes:
    """The bytes with bits turned over, cut off, or with others in their place."""
    spoilt = bytearray(content)
    for _ in range(rng.randrange(1, 4)):
        start = rng.randrange(len(spoilt) + 1)
        match rng.randrange(6):
            case 0:
                del spoilt[start:]
            case 1 if spoilt:
                spoilt[start % len(spoilt)] ^= 1 << rng.randrange(8)
            case 2:
                spoilt[start : start + rng.randrange(20)] = rng.randbytes(rng.randrange(8))
            case 3:
                spoilt[start:start] = rng.choice(TEXTS).encode("utf-8", "surrogatepass")
            case 4:
                del spoilt[start : start + rng.randrange(40)]
            case _:
                spoilt[start : start + 1] = rng.choice(
                    (b"[", b"{", b'"', b"\n", b":", b"&a ", b"*a", b"!!x ", b"\0", b"\xff")
                )
    return bytes(spoilt)
