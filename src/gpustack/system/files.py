"""Files written whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def write_out(path: Path, text: str) -> None:
    """Write ``text`` to where a user said. Raises OSError.

    A file is replaced whole, and so is the one that a link leads to; a device or a pipe is written to as it is, as
    replacing /dev/null or /dev/stdout by a file would be the end of it.
    """
    try:
        is_file = stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        is_file = True
    if is_file:
        write_atomically(path.resolve(), text)
    else:
        with path.open("w", encoding="utf-8") as stream:
            stream.write(text)


def write_atomically(path: Path, text: str, *, mode: int = 0o644, new: Path | None = None) -> None:
    """Write ``text`` to ``path`` so that a reader sees the old file or the new one, never a part. Raises OSError.

    It is written as ``new`` first, which must not be there; without that, as a file whose name nobody can guess.
    """
    if new is None:
        import tempfile  # noqa: PLC0415 (brings compression and random numbers; most commands write no file)

        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    else:
        handle, name = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), str(new)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
