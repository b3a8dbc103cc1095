"""Reading a body as the form that its source has today: every key and value that is not of it stops the source."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from update.record import Body, refuse

VERSION = re.compile(r"\d{1,6}(\.\d{1,6}){1,5}")
BUILD = re.compile(r"\d{1,9}(\.\d{1,9}){0,5}")
DATE = re.compile(r"(19|20)\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")
SHA256 = re.compile(r"[0-9a-f]{64}")
MD5 = re.compile(r"[0-9a-f]{32}")
SIZE = re.compile(r"[1-9]\d{0,12}")
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,200}")
PATH = re.compile(r"[A-Za-z0-9_.+~/-]{1,300}")
TITLE = re.compile(r"[^\x00-\x1f]{1,200}")


def text_of(body: Body) -> str:
    """The body as a text. Raises SourceError for what is not UTF-8."""
    try:
        return body.data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise refuse(body.address, f"is not a text: {exc}") from exc


def numbers(release: str) -> tuple[int, ...]:
    """The parts of a release, to compare it by. Raises SourceError for what no release is."""
    if not BUILD.fullmatch(release):
        raise refuse(release[:80], "is no release")
    return tuple(int(part) for part in release.split("."))


def json_of(body: Body) -> dict[str, Any]:
    """The JSON object in a body. Raises SourceError for anything else, and for a key that occurs twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            twice = next(name for name, _ in pairs if sum(other == name for other, _ in pairs) > 1)
            msg = f"key {twice!r} occurs twice"
            raise ValueError(msg)
        return found

    text = text_of(body)
    if text.lstrip()[:1] == "<":
        raise refuse(body.address, "is a page and not JSON")
    try:
        found = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as exc:
        raise refuse(body.address, f"is not JSON: {exc}") from exc
    if not isinstance(found, dict):
        raise refuse(body.address, "is not a JSON object")
    return found


def keys(found: Mapping[str, Any], known: Iterable[str], where: str, *, needed: Iterable[str] = ()) -> None:
    """Raise SourceError that names a key which the source has not had so far, or one that is missing."""
    for name in sorted(set(found) - set(known)):
        raise refuse(where, f"has the unknown key {name!r}")
    for name in needed:
        if name not in found:
            raise refuse(where, f"has no {name!r}")


def text(found: Mapping[str, Any], name: str, form: re.Pattern[str], where: str) -> str:
    """A text of the form. Raises SourceError naming the key."""
    value = found.get(name)
    if not isinstance(value, str) or not form.fullmatch(value):
        raise refuse(where, f"{name} is {value!r}")
    return value


def mapping(found: Any, where: str) -> dict[str, Any]:  # noqa: ANN401 (what a body holds is anything)
    """An object inside a body. Raises SourceError for anything else."""
    if not isinstance(found, dict):
        raise refuse(where, f"is {str(found)!r} and no object")
    return found


def listing(found: Any, where: str) -> list[Any]:  # noqa: ANN401 (what a body holds is anything)
    """A list inside a body. Raises SourceError for anything else."""
    if not isinstance(found, list):
        raise refuse(where, f"is {str(found)!r} and no list")
    return found
