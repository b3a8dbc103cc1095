"""Overlays compiled once: ``--matrices DIR`` costs as much as the built-in facts from its second use on.

An entry is named by the content of the overlay and of the facts below it, is written whole or not at all, and is used
only if nobody but this user can have written it. The oldest entries are removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from gpustack import __version__, resources
from gpustack.matrix.layout import FORMAT, Index
from gpustack.matrix.owned import is_owned
from gpustack.matrix.store import Layer, Store, write_files

MOST = 4
"""Entries that are kept."""


class Entry(Struct, frozen=True, kw_only=True):
    """The index of a cached overlay: that of all facts with it, and the names of the compiled files that differ."""

    index: Index
    names: frozenset[str]


def laid_over(store: Store, folder: Path) -> Store:
    """``store`` with the matrix files of ``folder`` applied. Raises MatrixError with file, row and field."""
    key = _key(store, folder)
    place = resources.cache_folder() / "overlays"
    found = _read(store, place / key) if key else None
    if found is not None:
        return found
    from gpustack.matrix.overlay import lay_over  # noqa: PLC0415 (imports yaml)

    laid = lay_over(store, folder)
    if key and key == _key(store, folder):  # nobody has changed a file meanwhile
        with suppress(OSError):
            _write(store, laid, place, key)
    return laid


def _key(store: Store, folder: Path) -> str:
    """The digest of all that the result depends on; "" if that cannot be read."""
    # The interpreter's own: hashlib loads OpenSSL, which costs more than reading the facts.
    from _blake2 import blake2b  # noqa: PLC0415

    digest = blake2b(f"{FORMAT} {__version__}\n".encode(), digest_size=20)
    for name, entry in sorted(store.index.subjects.items()):
        digest.update(f"{name} {entry.digest}\n".encode())
    try:
        if not folder.is_dir():
            return ""  # else it would pass for the empty folder that was asked before
        for path in sorted(folder.glob("*.yaml")):
            content = path.read_bytes() if path.is_file() else None
            if content is None:
                return ""
            digest.update(f"{len(path.name)} {len(content)}\n{path.name}".encode())
            digest.update(content)
    except (OSError, ValueError):
        return ""
    return str(digest.hexdigest())


def _read(store: Store, place: Path) -> Store | None:
    if not is_owned(place.parent) or not is_owned(place):
        return None
    try:
        entry = msgspec.msgpack.decode((place / "entry.msgpack").read_bytes(), type=Entry)
    except (OSError, msgspec.MsgspecError):
        return None
    return store.under(entry.index, Layer(folder=place, names=entry.names))


def _write(store: Store, laid: Store, place: Path, key: str) -> None:
    import shutil  # noqa: PLC0415 (only to compile)
    import tempfile  # noqa: PLC0415

    # A home that does not exist, as that of a service, is not made: without it nothing is kept.
    for folder in (place.parent.parent, place.parent, place):
        folder.mkdir(exist_ok=True, mode=0o700)
    if not is_owned(place):
        return
    blobs = dict(_different(store, laid))
    entry = Entry(index=laid.index, names=frozenset(blobs))
    new = Path(tempfile.mkdtemp(dir=place, prefix=".new-"))
    try:
        write_files(new, {**blobs, "entry": msgspec.msgpack.encode(entry)})
        new.rename(place / key)
    except OSError:
        shutil.rmtree(new, ignore_errors=True)  # another process was first
        raise
    for old in sorted(place.iterdir(), key=lambda one: one.stat().st_mtime_ns, reverse=True)[MOST:]:
        shutil.rmtree(old, ignore_errors=True)


def _different(store: Store, laid: Store) -> Iterator[tuple[str, bytes]]:
    """The compiled files that differ from those below: heads and tables of changed subjects, and the parts."""
    from gpustack.matrix.compile import parts_of  # noqa: PLC0415 (imports yaml)

    for subject, entry in laid.index.subjects.items():
        if store.index.subjects.get(subject) != entry:
            for name in (subject, *(f"{subject}.{table}" for table in entry.tables)):
                yield name, laid.blob(name) or b""
    for name, part in parts_of(laid.index.subjects, lambda name: laid.blob(name) or b"\x90").items():
        if store.blob(name) != part:
            yield name, part
