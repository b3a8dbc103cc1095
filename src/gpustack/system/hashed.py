"""A file that is hashed while it is written, so that it need not be read again."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import BinaryIO, cast

CHUNK = 256 * 1024
"""Bytes per read, write and hash: large enough that hashing releases the interpreter's lock."""

FICLONE = 0x40049409
"""The request that has one file share the blocks of another (linux/fs.h)."""

_IN_FLIGHT = 8
"""Chunks that may wait for the hash: times their size, the memory for one file."""


def sha256_of_file(path: Path) -> str:
    """The sha256 of a file, read once in pieces. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; refuse links, pipes and devices without waiting for them. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "no plain file", str(path))
    return cast("BinaryIO", os.fdopen(descriptor, "rb", buffering=0))


def copy_hashed(source: Path, target: Path) -> str:
    """Copy a regular file to ``target``, which must not exist, and return the sha256 of the copy. Raises OSError.

    File systems that can share blocks between both do.
    """
    digest = hashlib.sha256()
    with open_regular(source) as content, target.open("xb", buffering=0) as new:
        try:
            fcntl.ioctl(new, FICLONE, content.fileno())
        except OSError:
            while chunk := content.read(CHUNK):
                digest.update(chunk)
                left = memoryview(chunk)
                while left:
                    left = left[new.write(left) :]
            os.fsync(new.fileno())
            return digest.hexdigest()
    return sha256_of_file(target)


class HashedFile:
    """A file that is only appended to. A thread hashes what is written, in parallel.

    What was written is always what was hashed: an existing file is hashed by ``take_over`` or emptied by ``restart``,
    one of which must come first. Every method raises OSError if the file system fails.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._digest = hashlib.sha256()
        self._queue: Queue[bytes | None] = Queue(_IN_FLIGHT)
        self._thread = Thread(target=self._hash, name="sha256", daemon=True)
        self._thread.start()

    def take_over(self) -> None:
        """Hash the existing content, to append to it."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        self._forget()
        while chunk := os.read(self._descriptor, CHUNK):
            self._queue.put(chunk)
            self.size += len(chunk)

    def restart(self) -> None:
        """Discard the existing content."""
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        self._forget()

    def write(self, chunk: bytes) -> None:
        """Append ``chunk``."""
        left = memoryview(chunk)
        while left:
            left = left[os.write(self._descriptor, left) :]
        self.size += len(chunk)
        self._queue.put(chunk)

    def sha256(self) -> str:
        """The sha256 of everything written so far."""
        self._queue.join()
        return self._digest.hexdigest()

    def close(self) -> None:
        """Stop hashing and close the file."""
        self._queue.put(None)
        self._thread.join()
        os.close(self._descriptor)

    def _forget(self) -> None:
        self._queue.join()
        self._digest = hashlib.sha256()
        self.size = 0

    def _hash(self) -> None:
        while (chunk := self._queue.get()) is not None:
            self._digest.update(chunk)
            self._queue.task_done()
