"""The layers of an image, read as streams: nothing is unpacked to disk, nothing in them is run."""

from __future__ import annotations

import bz2
import gzip
import lzma
import posixpath
import re
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple, cast

from msgspec import Struct, field

from gpustack.detect.environments import names
from gpustack.patterns import later

MAX_ENTRIES = 4_000_000
"""In one image, its archive and its layers together."""

MAX_UNPACKED = 64 << 30
"""So many bytes are read or unpacked of one image, without being kept."""

MAX_SECONDS = 300.0
MAX_KEPT = 20_000
MAX_NAME = 1000
_AT_ONCE = 256 << 10
"""The longest header of an archive, in bytes."""

_PIECE = 64 << 10
_FILE = 512 << 10
DAMAGED = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError, OverflowError)
"""What reading a damaged archive raises."""

_PACKED: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"\xfd7zXZ": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
}
_ZSTD = b"\x28\xb5\x2f\xfd"
_SITE = r"/.+/(?:site|dist)-packages"
_TEXTS = "|".join(re.escape(name) for name in names.TEXTS)
_KEPT = later(
    rf"{_SITE}/[^/]+\.dist-info/METADATA|{_SITE}/(?:{_TEXTS})|/(?:etc|usr/lib)/os-release|"
    r"/usr/local/cuda(?:-[\d.]+)?/version\.(?:json|txt)"
)
_NAMED = later(
    r"/usr/local/cuda[\w.-]*/(?:.+/)?compat/(?:lib[\w.]*/)?libcuda\.so\.\d{3}\.[\d.]+|"
    r"/.+/conda-meta/[^/]+\.json|/.*/(?:libcudnn|libnvinfer)\.so\.\d+\.\d+\.[\d.]*\d"
)
_CACHE = later(r"/pkgs/|/\.cache/")


class Budget:
    """What may still be read of one image. Raises ValueError when it is spent."""

    def __init__(self, *, entries: int = MAX_ENTRIES, size: int = MAX_UNPACKED, seconds: float = MAX_SECONDS) -> None:
        self._entries, self._size = entries, size
        self._end = time.monotonic() + seconds

    def entry(self) -> None:
        self._entries -= 1
        if self._entries < 0:
            msg = "has more entries than any image"
            raise ValueError(msg)

    def spend(self, size: int) -> None:
        self._size -= size
        if self._size < 0:
            msg = "is larger than any image"
            raise ValueError(msg)
        if time.monotonic() > self._end:
            msg = f"takes longer than {MAX_SECONDS:.0f} seconds to read"
            raise ValueError(msg)


class _Forward:
    """A file that only goes forward, with a limit on each read: what tarfile needs, and no more."""

    def __init__(self, raw: IO[bytes], budget: Budget) -> None:
        head = raw.read(6)
        raw.seek(-len(head), 1)
        if head.startswith(_ZSTD):
            msg = "is packed by zstd, which is not read here"
            raise ValueError(msg)
        opener = next((one for magic, one in _PACKED.items() if head.startswith(magic)), None)
        self._raw: IO[bytes] = opener(raw) if opener is not None else raw
        self._is_packed = opener is not None
        self._budget = budget
        self._place = 0

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _AT_ONCE:
            msg = "has a header that is longer than any image's"
            raise ValueError(msg)
        self._budget.spend(size)
        data = self._raw.read(size)
        self._place += len(data)
        return data

    def seek(self, place: int) -> int:
        if place < self._place:
            msg = "its entries overlap"
            raise tarfile.ReadError(msg)
        if not self._is_packed:
            self._raw.seek(place - self._place, 1)
            self._place = place
        while self._place < place and self.read(min(_PIECE, place - self._place)):
            pass
        return self._place


class _Header(tarfile.TarInfo):
    """A header; a damaged one is an error, where tarfile takes it for the end of the archive."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> _Header:
        try:
            return super().fromtarfile(archive)
        except tarfile.InvalidHeaderError as exc:  # type: ignore[attr-defined]
            raise tarfile.ReadError(str(exc)) from exc


class Entry(NamedTuple):
    """One entry of an archive; a file is opened while it is the current one."""

    member: tarfile.TarInfo
    opened: Callable[[], IO[bytes]]


def take(stream: IO[bytes], most: int) -> bytes:
    """The first ``most`` bytes, in pieces: a single read may be no longer than a header."""
    data = bytearray()
    while len(data) < most and (piece := stream.read(min(_PIECE, most - len(data)))):
        data += piece
    return bytes(data)


def members(raw: IO[bytes], budget: Budget) -> Iterator[Entry]:
    """The entries of an archive at its beginning, packed or not; each opened while it is the current one.

    Raises ValueError for what exceeds the budget, and the errors of DAMAGED.
    """
    with tarfile.open(fileobj=cast("IO[bytes]", _Forward(raw, budget)), mode="r:", tarinfo=_Header) as archive:
        while (member := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # tarfile keeps every header otherwise
            archive.pax_headers = {}
            budget.entry()

            def opened(member: tarfile.TarInfo = member) -> IO[bytes]:
                return cast("IO[bytes]", archive.extractfile(member))

            yield Entry(member, opened)


class Layer(Struct):
    """What of one layer matters: files by path, paths that it removes from those below, folders that it empties."""

    added: dict[str, bytes] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    emptied: set[str] = field(default_factory=set)

    def hides(self, path: str) -> bool:
        """Whether a file of a layer below is no longer there."""
        if path in self.removed:
            return True
        folder = path
        while folder != "/":
            folder = posixpath.dirname(folder)
            if folder in self.removed or folder in self.emptied:
                return True
        return False


def read_layer(raw: IO[bytes], budget: Budget) -> Layer:
    """What matters of one layer. Raises ValueError and the errors of DAMAGED."""
    layer = Layer()
    for member, opened in members(raw, budget):
        path = posixpath.normpath(f"/{member.name}").replace("//", "/")
        folder, name = posixpath.split(path)
        if len(path) > MAX_NAME:
            continue
        if name == ".wh..wh..opq":
            layer.emptied.add(folder)
        elif name.startswith(".wh.") and not name.startswith(".wh..wh."):
            layer.removed.add(posixpath.join(folder, name.removeprefix(".wh.")))
        elif member.issym():
            layer.removed.add(path)  # a link takes the place of a folder below with all that is in it
        elif (member.isreg() or member.islnk()) and not _CACHE.search(path):
            _keep(layer, path, member, opened)
    return layer


def _keep(layer: Layer, path: str, member: tarfile.TarInfo, opened: Callable[[], IO[bytes]]) -> None:
    if len(layer.added) >= MAX_KEPT:
        msg = "holds more packages than any image"
        raise ValueError(msg)
    if _KEPT.fullmatch(path):
        linked = posixpath.normpath(f"/{member.linkname}")
        layer.added[path] = take(opened(), _FILE) if member.isreg() else layer.added.get(linked, b"")
    elif _NAMED.fullmatch(path):
        layer.added[path] = b""


def merged(layers: list[Layer]) -> dict[str, bytes]:
    """The files after all layers, the lowest first."""
    found: dict[str, bytes] = {}
    for layer in layers:
        found = {path: data for path, data in found.items() if not layer.hides(path)}
        found.update(layer.added)
    return found
