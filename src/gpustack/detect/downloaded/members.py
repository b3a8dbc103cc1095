"""The files inside archives and packages, one after another, whatever packs them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from gpustack.system.packed import ZSTD, tar_stream
from gpustack.system.run import reading

MOST = 64 << 20
"""Bytes that are read of one member: no index or header has more."""

_AR, _AR_HEAD = b"!<arch>\n", 60
_RPM, _RPM_LEAD, _RPM_HEADER = b"\xed\xab\xee\xdb", 96, b"\x8e\xad\xe8\x01"
_CPIO, _CPIO_HEAD, _CPIO_END = (b"070701", b"070702"), 110, "TRAILER!!!"
_PIECE = 1 << 20

_PACKED: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"\xfd7zXZ": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
}


class Member(NamedTuple):
    """One plain file; ``read`` gives its bytes, ``most`` of them at most, while it is the current one."""

    name: str
    size: int
    read: Callable[[int], bytes]


def in_tar(path: Path) -> Iterator[Member]:
    """The plain files of a tar archive, packed or not. Raises OSError, tarfile.TarError."""
    with tar_stream(path) as archive:
        yield from _of_tar(archive)


def in_zip(path: Path) -> Iterator[Member]:
    """The files of a zip archive. Raises OSError, zipfile.BadZipFile."""
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if not entry.is_dir():

                def read(most: int, entry: zipfile.ZipInfo = entry) -> bytes:
                    with archive.open(entry) as content:
                        return content.read(most)

                yield Member(entry.filename, entry.file_size, read)


def deb_control(path: Path) -> str:
    """The control file of a .deb. Raises OSError, tarfile.TarError, ValueError."""
    for name, part in _ar(path):
        if name.startswith("control.tar"):
            with _untarred(path, part, "--ctrl-tarfile") as archive:
                for member in _of_tar(archive):
                    if member.name == "control":
                        return member.read(MOST).decode("utf-8", "replace")
    msg = "has no control file"
    raise ValueError(msg)


def in_deb(path: Path) -> Iterator[Member]:
    """The plain files that a .deb installs. Raises OSError, tarfile.TarError, ValueError."""
    for name, part in _ar(path):
        if name.startswith("data.tar"):
            with _untarred(path, part, "--fsys-tarfile") as archive:
                yield from _of_tar(archive)


def rpm_header(path: Path) -> bytes:
    """The main header of an .rpm without its magic number. Raises OSError, ValueError."""
    with path.open("rb") as raw:
        return _past_signature(raw)


def in_rpm(path: Path) -> Iterator[Member]:
    """The plain files that an .rpm installs. Raises OSError, ValueError, EOFError, lzma.LZMAError."""
    with path.open("rb") as raw:
        _past_signature(raw)
        start = raw.tell()
        head = raw.read(6)
        raw.seek(start)
        if head.startswith(ZSTD):
            program = _program(("rpm2cpio",), "a package that zstd packs")
            with reading((program, str(path))) as content:
                yield from _of_cpio(content)
            return
        opener = next((one for magic, one in _PACKED.items() if head.startswith(magic)), None)
        yield from _of_cpio(opener(raw) if opener is not None else raw)


def _of_tar(archive: tarfile.TarFile) -> Iterator[Member]:
    for header in archive:
        if header.isreg():
            content = archive.extractfile(header)
            if content is not None:
                yield Member(header.name.removeprefix("./"), header.size, content.read)


class _Part(io.RawIOBase):
    """A part of an open file, as a file."""

    def __init__(self, raw: IO[bytes], size: int) -> None:
        super().__init__()
        self._raw, self._left = raw, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        piece = self._raw.read(min(len(buffer), self._left))
        self._left -= len(piece)
        buffer[: len(piece)] = piece
        return len(piece)


def _ar(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """The members of an ar archive, which a .deb is."""
    with path.open("rb") as raw:
        if raw.read(len(_AR)) != _AR:
            msg = "is no Debian package"
            raise ValueError(msg)
        while len(head := raw.read(_AR_HEAD)) == _AR_HEAD:
            size = int(head[48:58])
            after = raw.tell() + size + size % 2
            yield head[:16].decode("ascii", "replace").strip().rstrip("/"), io.BufferedReader(_Part(raw, size), _PIECE)
            raw.seek(after)


@contextmanager
def _untarred(path: Path, part: IO[bytes], option: str) -> Iterator[tarfile.TarFile]:
    """A tar archive that is a member of a .deb; Python reads zstd only from 3.14 on, dpkg-deb reads all."""
    if not part.peek(4).startswith(ZSTD):  # type: ignore[attr-defined]
        with tarfile.open(fileobj=part, mode="r|*") as archive:
            yield archive
        return
    program = _program(("dpkg-deb",), "a package that zstd packs")
    with reading((program, option, str(path))) as content, tarfile.open(fileobj=content, mode="r|") as archive:
        yield archive


def _program(names: tuple[str, ...], what: str) -> str:
    found = next((name for name in names if shutil.which(name)), None)
    if found is None:
        msg = f"is {what}, which needs {' or '.join(names)} here to be read"
        raise ValueError(msg)
    return found


def _past_signature(raw: IO[bytes]) -> bytes:
    """Read up to the payload of an .rpm; the main header."""
    if raw.read(_RPM_LEAD)[:4] != _RPM:
        msg = "is no rpm package"
        raise ValueError(msg)
    signature = _header(raw)
    raw.read(-len(signature) % 8)
    return _header(raw)


def _header(raw: IO[bytes]) -> bytes:
    head = raw.read(16)
    entries, size = int.from_bytes(head[8:12], "big"), int.from_bytes(head[12:16], "big")
    if head[:4] != _RPM_HEADER or entries > 1 << 16 or size > MOST:
        msg = "is a damaged rpm package"
        raise ValueError(msg)
    return head[8:] + raw.read(16 * entries + size)


def _of_cpio(raw: IO[bytes]) -> Iterator[Member]:
    """The plain files of a cpio archive in the form "newc"."""
    while len(head := _exactly(raw, _CPIO_HEAD)) == _CPIO_HEAD:
        if not head.startswith(_CPIO):
            msg = "holds no files in a form that can be read"
            raise ValueError(msg)
        mode, size, length = (int(head[place : place + 8], 16) for place in (14, 54, 94))
        name = _exactly(raw, length)[:-1].decode("utf-8", "replace")
        _exactly(raw, -(_CPIO_HEAD + length) % 4)
        if name == _CPIO_END:
            return
        content = io.BufferedReader(_Part(raw, size), _PIECE)
        if mode & 0o170000 == 0o100000:
            yield Member(name.removeprefix("./"), size, content.read)
        while content.read(_PIECE):
            pass
        _exactly(raw, -size % 4)


def _exactly(raw: IO[bytes], count: int) -> bytes:
    found = b""
    while len(found) < count and (piece := raw.read(count - len(found))):
        found += piece
    return found
