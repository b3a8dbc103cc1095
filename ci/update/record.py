"""What passes between the parts: bodies as a server sent them, the rows that they give, and sources."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, Any]


class Body(NamedTuple):
    """What a server answered. ``day`` is the day of the answer, ``headers`` has names in small letters.

    ``note`` is for recorded bodies that are not as they were sent: what was removed or composed.
    """

    address: str
    day: str
    data: bytes
    headers: dict[str, str] = {}  # noqa: RUF012 (a NamedTuple's default; nobody changes it)
    note: str = ""


class Found(NamedTuple):
    """A row that a source gives, as it would stand in the file of ``subject``."""

    subject: str
    table: str
    row: Row


class Proof(NamedTuple):
    """The sum of a list of files, which has to stand in the facts (``table``, by ``release``) before it is used."""

    subject: str
    version: str
    table: tuple[str, str]
    release: str
    sha256: str


class FileSum(NamedTuple):
    """A sum that somebody quotes for a file, by its address or name. It confirms rows with that file, and adds none."""

    file: str
    column: str
    digest: str


class Given(NamedTuple):
    """What one source gives. ``covers``: subject, table and values of columns; of these it lists every row."""

    rows: tuple[Found, ...]
    covers: tuple[tuple[str, str, Row], ...] = ()
    proofs: tuple[Proof, ...] = ()
    sums: tuple[FileSum, ...] = ()


def joined(parts: Iterable[Given]) -> Given:
    """What several parts of a source give together."""
    found = Given(())
    for one in parts:
        found = Given(*(mine + its for mine, its in zip(found, one, strict=True)))
    return found


class Source(NamedTuple):
    """A kind of publication. ``hand_out`` says in which words a person records it by hand."""

    name: str
    rows: Callable[[Sequence[Body]], Given]
    hand_out: str


class SourceError(ValueError):
    """A body is not what its source publishes: a person has to look before any of its rows is used."""


class MissingError(SourceError):
    """The server says that there is nothing at an address."""


def refuse(where: str, what: str) -> SourceError:
    """The error for a body; the text is one line, however long the place was."""
    return SourceError(f"{' '.join(where.split())[:200]}: {' '.join(what.split())[:300]}")


def save(path: Path, bodies: Iterable[Body], preset: int = 9 | lzma.PRESET_EXTREME) -> None:
    """Write bodies into one compressed file, a line of JSON for each; ``preset`` is how hard lzma tries."""
    lines = [
        json.dumps(
            {"address": b.address, "day": b.day, "headers": b.headers, "note": b.note, "text": b.data.decode("utf-8")},
            sort_keys=True,
        )
        for b in bodies
    ]
    path.write_bytes(lzma.compress("\n".join(lines).encode(), preset=preset))


def load(path: Path) -> tuple[Body, ...]:
    """The bodies of a file of ``save``."""
    found = (json.loads(line) for line in lzma.decompress(path.read_bytes()).decode().splitlines())
    return tuple(Body(b["address"], b["day"], b["text"].encode(), b["headers"], b["note"]) for b in found)
