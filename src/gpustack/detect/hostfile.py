"""The host document on disk: written in a stable order of keys, read with every value validated."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gpustack.errors import DocumentError
from gpustack.model.host import Host

MAX_BYTES = 4 << 20
"""The most bytes of a host document."""

SCHEMA = "gpustack/host/v1"
_HINT = "`gpustack detect --format json > host.json` writes one"


def dump(host: Host) -> str:
    """The document as text, with a final line break."""
    return msgspec.json.format(msgspec.json.encode(host), indent=2).decode() + "\n"


def load(path: Path) -> Host:
    """The host in the file ``path``. Raises DocumentError that says what is wrong and where."""
    try:
        if not path.is_file():
            msg = "is a folder, not a host document" if path.is_dir() else "no such file"
            raise DocumentError(msg, code="unreadable-host", where=str(path), hint=_HINT)
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as exc:
        msg = f"cannot be read: {getattr(exc, 'strerror', None) or exc}"
        raise DocumentError(msg, code="unreadable-host", where=str(path), hint=_HINT) from exc
    if len(data) > MAX_BYTES:
        msg = f"is longer than {MAX_BYTES} bytes: not a host document"
        raise DocumentError(msg, code="unreadable-host", where=str(path), hint=_HINT)
    return parse(data, where=str(path))


def parse(data: bytes, *, where: str = "") -> Host:
    """The host in a document. Raises DocumentError."""
    try:
        head = msgspec.json.decode(data, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        msg = f"is not a JSON object: {exc}"
        raise DocumentError(msg, code="unreadable-host", where=where, hint=_HINT) from exc
    if head.get("schema") != SCHEMA:
        msg = f"schema is {str(head.get('schema'))[:60]!r}, expected {SCHEMA!r}"
        raise DocumentError(msg, code="unreadable-host", where=where, hint=_HINT)
    try:
        return msgspec.json.decode(data, type=Host)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        msg = f"is not a host document: {exc}"
        raise DocumentError(msg, code="unreadable-host", where=where, hint=_HINT) from exc
