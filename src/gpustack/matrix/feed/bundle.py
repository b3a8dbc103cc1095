"""A bundle: the compiled facts as one file, and how those of a person and those of a machine become one."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gpustack.matrix.age import OldFactsError
from gpustack.matrix.compile import parts_of
from gpustack.matrix.layout import FORMAT, Index, SubjectEntry, SubjectHead
from gpustack.matrix.typed import TYPED

NAME = f"facts-{FORMAT}.bundle"
"""The facts that persons sign. Each layout has a file of its own, so that old programs keep theirs."""
GENERATED_NAME = f"generated/facts-{FORMAT}.bundle"
"""The generated subjects as a machine signs them."""
LARGEST = 64 << 20
"""The most bytes of a bundle, compressed and not: ours has 9 MiB."""
PERSONS = ("rules", "releases", "packages", "repositories", "keys", "systems", "conflicts", "bounds", "applies")
"""Tables that no machine may publish: they decide what is compatible, and whom to trust."""


class Bundle(Struct, frozen=True, kw_only=True):
    """The content of a bundle: the index and the compiled files, by name."""

    index: Index
    files: dict[str, bytes]


def pack(bundle: Bundle) -> bytes:
    """A bundle as bytes; the same facts give the same bytes."""
    ordered = Bundle(index=bundle.index, files=dict(sorted(bundle.files.items())))
    return zlib.compress(msgspec.msgpack.encode(ordered), 9)


def unpack(data: bytes) -> Bundle:
    """The content of a bundle. Raises OldFactsError."""
    reader = zlib.decompressobj()
    try:
        plain = reader.decompress(data, LARGEST)
        bundle = msgspec.msgpack.decode(plain, type=Bundle)
    except (zlib.error, msgspec.MsgspecError) as exc:
        raise _unusable(exc, "is damaged") from exc
    if bundle.index.format != FORMAT:
        raise _unusable(bundle.index.format, f"has another layout than {FORMAT}, which this program reads")
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", bundle.index.made):
        raise _unusable(bundle.index.made, "names no time of publication")
    wanted = {name for subject, entry in bundle.index.subjects.items() for name in (subject, *_tables(subject, entry))}
    odd = [name for name in bundle.files if not re.fullmatch(r"@?[a-z0-9][A-Za-z0-9_.-]*", name)]
    if odd or wanted - bundle.files.keys():
        raise _unusable(min([*odd, *(wanted - bundle.files.keys())]), "lacks a file or has a strange one")
    return bundle


def demand_readable(bundle: Bundle) -> None:
    """Raise OldFactsError if this program cannot read a row: its release may be older than the facts."""
    for subject, entry in bundle.index.subjects.items():
        for table in entry.tables:
            _demand_readable(bundle, subject, table)


def _demand_readable(bundle: Bundle, subject: str, table: str) -> None:
    kind = TYPED.get(table, dict)
    try:
        msgspec.msgpack.decode(bundle.files[f"{subject}.{table}"], type=list[kind], strict=False)  # type: ignore[valid-type]
        _ = msgspec.msgpack.decode(bundle.files[subject], type=SubjectHead).tables[table]
    except (msgspec.MsgspecError, KeyError) as exc:
        raise _unusable(exc, f"has rows in {subject}.{table} that this program cannot read") from exc


def combined(signed: Bundle, generated: Bundle) -> Bundle:
    """The facts that persons signed, with those of a machine, which only adds rows to generated subjects.

    They keep the date of the persons' part: a machine that publishes each day makes no rule younger.
    Raises OldFactsError if it does anything else: removes or changes a row, adds a table or a host of downloads.
    """
    if generated.index.made <= signed.index.made:
        return signed  # the persons have signed these rows, or later ones
    entries = dict(signed.index.subjects)
    files = dict(signed.files)
    for subject, entry in generated.index.subjects.items():
        below = entries.get(subject)
        if below is None or not below.is_generated:
            raise _forbidden(subject, "publishes a subject that only persons sign")
        if _heads(signed, subject) != _heads(generated, subject) or set(PERSONS) & entry.tables.keys():
            raise _forbidden(subject, "changes tables or columns")
        for name in _tables(subject, entry):
            _demand_only_more(name, signed, generated)
            files[name] = generated.files[name]
        files[subject] = generated.files[subject]
        entries[subject] = entry
    files.update(parts_of(entries, files.__getitem__))
    return Bundle(index=replace(signed.index, subjects=entries), files=files)


def _demand_only_more(name: str, signed: Bundle, generated: Bundle) -> None:
    before: list[dict[str, Any]] = msgspec.msgpack.decode(signed.files[name])
    after: list[dict[str, Any]] = msgspec.msgpack.decode(generated.files[name])
    encode = msgspec.msgpack.Encoder(order="deterministic").encode
    kept = {encode(row) for row in after}
    gone = next((row for row in before if encode(row) not in kept), None)
    if gone is not None:
        raise _forbidden(name, f"changes or removes the row {str(gone)[:200]}")
    new = set(_hosts(after)) - set(_hosts(before))
    if new:
        raise _forbidden(name, f"names the host {min(new)}, which no person has signed")


def _hosts(rows: list[dict[str, Any]]) -> Iterator[str]:
    for row in rows:
        for value in row.values():
            if isinstance(value, str) and "://" in value:
                parts = urlsplit(value)
                yield f"{parts.scheme}://{parts.netloc}"


def _tables(subject: str, entry: SubjectEntry) -> list[str]:
    return [f"{subject}.{table}" for table in entry.tables]


def _heads(bundle: Bundle, subject: str) -> object:
    return msgspec.msgpack.decode(bundle.files[subject], type=SubjectHead).tables


def _unusable(found: object, fault: str) -> OldFactsError:
    msg = f"the bundle of facts {fault}: {found}"
    return OldFactsError(msg, code="update-unusable", hint="update gpustack, then try again")


def _forbidden(place: str, deed: str) -> OldFactsError:
    msg = f"{place}: the machine's part of the update {deed}"
    return OldFactsError(msg, code="update-untrusted", hint="the facts in use stay; report it to the publisher")
