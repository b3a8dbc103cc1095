"""Downloaded files by content, shared by all runs and processes of one user."""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpustack.errors import GpustackError
from gpustack.system.hashed import copy_hashed, sha256_of_file


def default_folder() -> Path:
    """``GPUSTACK_CACHE``, else the system's cache for root and the user's own for others."""
    named = os.environ.get("GPUSTACK_CACHE")
    if named:
        return Path(named)
    if os.geteuid() == 0:
        return Path("/var/cache/gpustack/downloads")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpustack"


class Cache:
    """A folder of files named by their sha256. A file gets its name only after it was hashed completely.

    ``sha256/`` contains complete files, ``partial/`` those in transfer, ``locks/`` one lock for each, never removed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, sha256: str) -> Path | None:
        """The file with this checksum, hashed again: disks and people damage files. A damaged one is removed.

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
        """The path of a download in transfer. What another user began there is removed.

        Raises OSError.
        """
        path = self.folder / "partial" / key
        with suppress(FileNotFoundError):
            if path.lstat().st_uid != os.geteuid():
                path.unlink()
        return path

    def publish(self, part: Path, sha256: str) -> Path:
        """Give a complete file its name; ``sha256`` was computed over it."""
        path = self._place(sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        part.chmod(0o644)
        part.replace(path)
        return path

    @contextmanager
    def locked(self, key: str, waiting: Callable[[], None]) -> Iterator[None]:
        """Hold the lock of one download; ``waiting`` is called once if another process has it. Raises OSError."""
        for name in ("locks", "partial", "sha256"):
            (self.folder / name).mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(self.folder / "locks" / key, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
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
    """The name of the lock and the partial file of a download."""
    return sha256 or f"url-{hashlib.sha256(url.encode()).hexdigest()}"


def has_sum(place: Path, sha256: str) -> bool:
    """Whether a file exists and has this checksum."""
    if place.is_symlink() or not place.is_file():
        return False
    return sha256_of_file(place) == sha256


def is_private(place: Path) -> bool:
    """Whether only root, and the current user, can change a place or what is below it. Raises OSError.

    In a folder like /tmp nobody can replace what another user owns.
    """
    own = {0, os.geteuid()}
    for above in (place, *place.parents):
        found = above.stat()
        if found.st_uid not in own or (found.st_mode & 0o022 and not (above != place and found.st_mode & stat.S_ISVTX)):
            return False
    below = (Path(folder, name) for folder, *names in os.walk(place) for name in (*names[0], *names[1]))
    return all(found.st_uid in own and not found.st_mode & 0o022 for found in map(Path.lstat, below))


def take(source: Path, target: Path, sha256: str) -> None:
    """Copy a file of a cache or a bundle to ``target``, which must not exist.

    It is hashed while it is copied: its owner may have changed it since it was checked. Raises GpustackError unless its
    checksum is ``sha256``; then there is no ``target``.
    """
    try:
        found = copy_hashed(source, target)
    except OSError as exc:
        if not isinstance(exc, FileExistsError):
            target.unlink(missing_ok=True)
        msg = f"cannot be copied to {target}: {exc.strerror or exc}"
        raise GpustackError(
            msg, code="not-writable", where=str(source), hint="make room there, or choose another cache"
        ) from exc
    if found != sha256:
        target.unlink()
        msg = f"was changed after it was checked: its sha256 is {found}, and {sha256} is required"
        hint = "another user can write there: choose a cache of your own with GPUSTACK_CACHE, or copy the bundle again"
        raise GpustackError(msg, code="checksum-mismatch", where=str(source), hint=hint)
