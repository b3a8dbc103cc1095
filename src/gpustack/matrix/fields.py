"""The kinds of value in matrix columns, and how each is validated."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from gpustack.versions import version, version_range

_DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MD5 = re.compile(r"[0-9a-f]{32}")
_URL = re.compile(r"https?://[^\s<>]+")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+:/~-]*")


def _text(value: object) -> str:
    if not isinstance(value, str):
        msg = "is not a text"
        raise TypeError(msg)
    return value


def _matching(pattern: re.Pattern[str], name: str) -> Callable[[object], str]:
    def convert(value: object) -> str:
        text = _text(value)
        if not pattern.fullmatch(text):
            msg = f"{text!r} is not {name}"
            raise ValueError(msg)
        return text

    return convert


def _version(value: object) -> str:
    return version(_text(value)).text


def _range(value: object) -> str:
    return version_range(_text(value)).text


def _integer(value: object) -> int:
    number = int(_text(value))
    if abs(number) >= 1 << 63:
        msg = "is larger than any count can be"
        raise ValueError(msg)
    return number


def _number(value: object) -> float:
    number = float(_text(value))
    if not math.isfinite(number):
        msg = f"{value} is not a finite number"
        raise ValueError(msg)
    return number


def _boolean(value: object) -> bool:
    text = _text(value)
    if text not in {"true", "false"}:
        msg = f"{text!r} is neither true nor false"
        raise ValueError(msg)
    return text == "true"


def _any(value: object) -> object:
    return value


def _mapping(value: object) -> object:
    if not isinstance(value, dict):
        msg = "is not a mapping"
        raise TypeError(msg)
    return value


KINDS: dict[str, Callable[[object], Any]] = {
    "text": _text,
    "word": _matching(_WORD, "one word"),
    "version": _version,
    "range": _range,
    "date": _matching(_DATE, "a date such as 2026-11-21, 2026-11 or 2026"),
    "int": _integer,
    "number": _number,
    "bool": _boolean,
    "sha256": _matching(_SHA256, "a sha256 of 64 hexadecimal digits"),
    "md5": _matching(_MD5, "an md5 of 32 hexadecimal digits"),
    "url": _matching(_URL, "an http(s) address"),
    "map": _mapping,
    "any": _any,
}


def convert(kind: str, value: object) -> object:
    """``value`` as the declared ``kind`` ("list of KIND" for lists). Raises ValueError or TypeError with the reason."""
    if kind.startswith("list of "):
        if not isinstance(value, list):
            msg = "is not a list"
            raise TypeError(msg)
        return [convert(kind[8:], item) for item in value]
    return KINDS[kind](value)


def is_kind(kind: str) -> bool:
    """Whether ``kind`` names a kind of value."""
    return kind.removeprefix("list of ") in KINDS
