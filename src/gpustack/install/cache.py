"""Downloaded files by what they contain, shared by all runs and processes of one user."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gpustack.system.hashed import sha256_of_file


def default_folder() -> Path:
    """``GPUSTACK_CACHE``, else the system's cache for root and the user's own for others."""
    named = os.environ.get("GPUSTACK_CACHE")
    if named:
        return Path(named)
    if os.geteuid() == 0:
        return Path("/var/cache/gpustack/downloads")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpustack"


class Cache:
    """A folder of files named by their sha256. A name is given only to a file that was hashed whole.

    ``sha256/`` holds whole files, ``partial/`` what is on its way, ``locks/`` one lock for each, never removed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, sha256: str) -> Path | None:
        """The file with this sum, hashed once more: disks and people damage files. A damaged one is removed.

        Raises OSError.
        """
        path = self._place(sha256)
        try:
            if sha256_of_file(path) == sha256:
                return path
        except FileNotFoundError:
            return None
        path.unlink(missing_ok=True)
        return None

    def part(self, key: str) -> Path:
        """Where a download is written while it is on its way."""
        return self.folder / "partial" / key

    def publish(self, part: Path, sha256: str) -> Path:
        """Give a whole file its name; ``sha256`` is what was computed over it."""
        path = self._place(sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        part.chmod(0o644)
        part.replace(path)
        return path

    @contextmanager
    def locked(self, key: str, waiting: Callable[[], None]) -> Iterator[None]:
        """Hold the lock of one download; ``waiting`` is called once where another process has it. Raises OSError."""
        for name in ("locks", "partial", "sha256"):
            (self.folder / name).mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(self.folder / "locks" / key, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _place(self, sha256: str) -> Path:
        return self.folder / "sha256" / sha256[:2] / sha256


def key_of(url: str, sha256: str) -> str:
    """The name under which a download is locked and kept while it is on its way."""
    return sha256 or f"url-{hashlib.sha256(url.encode()).hexdigest()}"
