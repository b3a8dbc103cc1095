"""Files written completely or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def write_out(path: Path, text: str) -> None:
    """Write ``text`` to the place that the user named. Raises OSError.

    A file is replaced as a whole, and so is the target of a link. A device or a pipe is written to: replacing /dev/null
    or /dev/stdout by a file would destroy it.
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
    """Write ``text`` to ``path`` so that readers see the old file or the new one, never a part. Raises OSError.

    It is written as ``new`` first, which must not exist; by default a file with an unpredictable name.
    """
    if new is None:
        import tempfile  # noqa: PLC0415 (loads compression and random numbers; most commands write no file)

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
