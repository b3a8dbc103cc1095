"""Compressed files as streams, by file name extension."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from gpustack.system.run import reading

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
ENDINGS = (*_OPENERS, ".zst")


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
