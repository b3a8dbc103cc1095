"""Compiled matrices: a msgpack file for each table, the head of each subject, and an index of them.

An installed package contains only the compiled form, packed (see ``packed``). A checkout keeps it under ``build/`` and
recompiles a file when its size or time of change differs. If that folder is not writable the user's cache folder is
used, and if that fails too, memory. Reading never imports yaml while the compiled form is fresh.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gpustack import resources
from gpustack.errors import MatrixError
from gpustack.matrix.layout import FORMAT, GENERATED, Index, SubjectEntry, SubjectHead, part_name
from gpustack.matrix.packed import Packed


class Layer(Struct, frozen=True, kw_only=True):
    """Compiled files, by name, that stand in front of those below them."""

    folder: Path
    names: frozenset[str]


class Store:
    """The source of compiled subjects: files of a folder, packed or not, layers in front of it, or memory.

    ``has_parts`` is False if an overlay may have added rows that are missing from the parts.
    """

    def __init__(
        self,
        index: Index,
        folder: Path | Packed | None,
        memory: dict[str, bytes],
        *,
        layers: tuple[Layer, ...] = (),
        has_parts: bool = True,
    ) -> None:
        self.index = index
        self.has_parts = has_parts
        self._folder = folder
        self._memory = memory
        self._layers = layers
        self._heads: dict[str, SubjectHead] = {}

    def is_same(self, other: Store) -> bool:
        """Whether both read the same compiled facts of one folder, with nothing in front of it."""
        is_plain = not (self._memory or self._layers or other._memory or other._layers)
        return is_plain and self._folder is not None and self._folder == other._folder and self.index == other.index

    def part(self, table: str, component: str) -> bytes | None:
        """The encoded rows of all subjects' ``table`` that are about ``component``; None without any."""
        return self.blob(part_name(table, component))

    def rows(self, subject: str, table: str) -> bytes | None:
        """The encoded rows of one table; None if there is no such table."""
        entry = self.index.subjects.get(subject)
        return self.blob(f"{subject}.{table}") if entry is not None and table in entry.tables else None

    def head(self, subject: str) -> SubjectHead | None:
        """The head of a compiled subject; None if there is no matrix of that name."""
        if subject not in self.index.subjects:
            return None
        if subject not in self._heads:
            self._heads[subject] = msgspec.msgpack.decode(self.blob(subject) or b"", type=SubjectHead)
        return self._heads[subject]

    def blob(self, name: str) -> bytes | None:
        """The compiled file of a name; None without one. Raises MatrixError if a layer has lost it."""
        if name in self._memory or self._folder is None:
            return self._memory.get(name)
        for layer in self._layers:
            if name in layer.names:
                return _from_layer(layer.folder / f"{name}.msgpack")
        if isinstance(self._folder, Packed):
            return self._folder.blob(name)
        try:
            return (self._folder / f"{name}.msgpack").read_bytes()
        except FileNotFoundError:
            return None

    def overlaid(self, entries: dict[str, SubjectEntry], memory: dict[str, bytes]) -> Store:
        """The same store with other subjects in front: ``memory`` holds them compiled, ``entries`` the whole index."""
        index = replace(self.index, subjects=entries)
        return Store(index, self._folder, {**self._memory, **memory}, layers=self._layers, has_parts=False)

    def under(self, index: Index, layer: Layer) -> Store:
        """The same store with the files of ``layer`` in front, which has the parts of both."""
        return Store(index, self._folder, self._memory, layers=(layer, *self._layers))


def _from_layer(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        msg = f"compiled facts have disappeared: {exc.strerror or exc}"
        hint = "run it again: it compiles them"
        raise MatrixError(msg, code="facts-missing", where=str(path), hint=hint) from exc


def open_store() -> Store:
    """The built-in matrices, compiled and fresh. Raises MatrixError (exit 2) if an installation lacks them."""
    folder = resources.compiled_folder()
    if not resources.is_checkout():
        own = read_index(folder)
        with suppress(OSError, msgspec.MsgspecError):
            if own is not None:
                return Store(own, Packed(folder), {})
        msg = "the facts of this installation are missing or belong to another version of gpustack"
        raise MatrixError(msg, code="facts-missing", where=str(folder), hint="reinstall gpustack")
    stamps = _stamps(resources.folder("matrices"))
    for place in (folder, resources.cache_folder() / "matrices"):
        index = read_index(place)
        if index is not None and _is_fresh(index, stamps):
            return Store(index, place, {})
    return _compile_again(stamps, (folder, resources.cache_folder() / "matrices"))


def write_folder(folder: Path, index: Index, blobs: dict[str, bytes]) -> None:
    """Write compiled subjects and their index into ``folder``, each file complete or not at all, the index last."""
    folder.mkdir(parents=True, exist_ok=True)
    write_files(folder, blobs)
    write_files(folder, {"index": msgspec.msgpack.encode(index)})


def write_files(folder: Path, blobs: dict[str, bytes]) -> None:
    """Write compiled files into ``folder``, each complete or not at all."""
    for name, blob in blobs.items():
        _replace(folder / f"{name}.msgpack", blob)


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    stamps = {}
    for place in (folder / GENERATED, folder):
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.name.endswith(".yaml"):
                    status = entry.stat()
                    stamps[entry.name.removesuffix(".yaml")] = (status.st_mtime_ns, status.st_size)
    return stamps


def _is_fresh(index: Index, stamps: dict[str, tuple[int, int]]) -> bool:
    return index.subjects.keys() == stamps.keys() and all(
        index.subjects[name].stamp == stamp for name, stamp in stamps.items()
    )


def read_index(folder: Path) -> Index | None:
    """The index of a folder of compiled matrices; None unless it is there and of this layout."""
    try:
        index = msgspec.msgpack.decode((folder / "index.msgpack").read_bytes(), type=Index)
    except (OSError, msgspec.MsgspecError):
        return None
    return index if index.format == FORMAT else None


def _compile_again(stamps: dict[str, tuple[int, int]], places: tuple[Path, ...]) -> Store:
    from gpustack.matrix import compile as compiler  # noqa: PLC0415 (imports yaml)

    old = next((found for found in ((place, read_index(place)) for place in places) if found[1]), None)
    index, blobs = compiler.compile_folder(resources.folder("matrices"), stamps, old)
    for place in places:
        try:
            write_folder(place, index, blobs)
        except OSError:
            continue
        return Store(index, place, blobs)
    return Store(index, None, blobs)


def _replace(path: Path, blob: bytes) -> None:
    import tempfile  # noqa: PLC0415 (only to compile)

    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(blob)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
