"""Compressed files as streams, by file name extension."""

import bz2
import gzip
import lzma
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from gpustack.system.run import reading

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
ENDINGS = (*_OPENERS, ".zst")

ZSTD = b"\x28\xb5\x2f\xfd"
"""How a file packed by zstd begins."""


@contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    """The content of ``path``; without a known extension, as it is.

    Raises OSError, also for damaged files.
    """
    try:
        if path.suffix == ".zst":
            with reading(("zstd", "--decompress", "--stdout", "--", str(path))) as content:
                yield content
            return
        with _OPENERS.get(path.suffix, Path.open)(path, "rb") as content:
            yield content
    except (EOFError, lzma.LZMAError, ValueError) as exc:
        msg = f"{path} is damaged: {exc}"
        raise OSError(msg) from exc


@contextmanager
def tar_stream(path: Path) -> Iterator[tarfile.TarFile]:
    """A tar archive (gz, bz2, xz, zst or plain) to be read once from its beginning to its end, or less.

    Raises OSError, tarfile.TarError.
    """
    with path.open("rb") as raw:
        is_zstd = raw.read(len(ZSTD)) == ZSTD
    if not is_zstd:
        with tarfile.open(path, "r|*") as archive:
            yield archive
        return
    # Python reads zstd only from 3.14 on; where such an archive is unpacked, the program is there.
    with reading(("zstd", "--decompress", "--stdout", "--", str(path))) as content:
        with tarfile.open(fileobj=content, mode="r|") as archive:
            yield archive
        while content.read(1 << 20):
            pass
