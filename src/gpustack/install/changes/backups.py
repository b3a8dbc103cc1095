"""Copies of what is about to change, with all metadata, and their restoration."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO

from msgspec.structs import replace

from gpustack.errors import GpustackError
from gpustack.install.changes.attributes import called, set_attributes
from gpustack.install.changes.look import SMALL, content_of, differences, look, sum_of
from gpustack.install.changes.names import beside, native, safe
from gpustack.install.journal.file import sync_folder
from gpustack.install.journal.records import Entry
from gpustack.system.hashed import FICLONE
from gpustack.system.mounts import holds_mounts

_LARGE = 16 * 1024 * 1024
"""Larger contents are linked if they cannot be cloned: copying gigabytes of libraries takes too much time and room.

No configuration file is that large, and installers of libraries write new files instead of changing old ones.
"""
_RESERVE = 2 * 1024 * 1024
"""Bytes to keep free where contents are kept: the journal of the step is written there too."""
_OF_RECORD = 512
"""The size of a journal record of one place, with its name."""
_HINT = "make room on the file system of {}"


class AttributesError(GpustackError):
    """A place has its content again, but not all of its attributes: ``names`` are the missing ones."""

    def __init__(self, place: Path, failed: dict[str, str]) -> None:
        texts = ", ".join(f"{called(name)}: {why}" for name, why in sorted(failed.items()))
        super().__init__(f"its attributes cannot be restored ({texts})", code="backup-failed", where=str(place))
        self.names = frozenset(failed)


class Backups:
    """The folder of a run with kept contents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._small = folder / "contents"
        self._copies = 0

    def keep(self, places: dict[str, tuple[str, Entry]]) -> dict[str, Entry]:
        """Copy the contents of these files to disk before returning. Names map to places and their entries.

        Raises GpustackError if there is no room for them, if possible before anything is copied.
        """
        files = {name: pair for name, pair in places.items() if pair[1].kind == "file"}
        kept = {name: entry for name, (_, entry) in places.items() if entry.kind != "file"}
        if not files:
            return kept
        place = str(self.folder)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._demand_room([entry for _, entry in files.values()])
            contents = _Contents(self._small)
            try:
                for name, (place, entry) in files.items():
                    with suppress(FileNotFoundError):
                        kept[name] = self._keep(place, entry, contents)
                place = str(self._small)
                contents.sync()
            finally:
                contents.close()
            sync_folder(self.folder)
        except OSError as exc:
            msg = f"cannot be backed up: {exc.strerror or exc}"
            hint = _HINT.format(self.folder) if exc.errno in {errno.ENOSPC, errno.EDQUOT} else ""
            raise GpustackError(msg, code="backup-failed", where=safe(place), hint=hint) from exc
        return kept

    def _demand_room(self, files: list[Entry]) -> None:
        """Raise GpustackError if there is no room for the contents of these files and for their record."""
        needed = _RESERVE + sum(_OF_RECORD + (one.size if one.size <= _LARGE else 0) for one in files)
        there = os.statvfs(self.folder)
        free = there.f_bavail * there.f_frsize
        if free < needed:
            msg = (
                f"{-(-needed // 2**20)} MiB have to be free to keep what the step may change, "
                f"and {free // 2**20} MiB are free"
            )
            raise GpustackError(msg, code="disk-full", where=str(self.folder), hint=_HINT.format(self.folder))

    def _keep(self, place: str, entry: Entry, contents: _Contents) -> Entry:
        if entry.size > SMALL:
            self._copies = self._copies or sum(1 for _ in self.folder.iterdir())
            while (copy := self.folder / f"file{self._copies}").exists():
                self._copies += 1
            duplicate(Path(place), copy, most=_LARGE)
            return replace(entry, kept=copy.name)
        content = content_of(place, entry.size)
        begin = contents.append(content)
        return replace(entry, kept=f"{begin}+{len(content)}", sum=sum_of(content))

    def put_back(self, place: Path, entry: Entry, names: Iterable[Path] = ()) -> None:
        """Restore ``place`` to ``entry``; ``names`` are the file's other names.

        Raises GpustackError if that fails, and AttributesError if only attributes are missing.
        """
        try:
            self._put_back(place, entry, names)
        except OSError as exc:
            msg = f"cannot be restored: {exc.strerror or exc}"
            raise GpustackError(msg, code="backup-failed", where=str(place)) from exc

    def _put_back(self, place: Path, entry: Entry, names: Iterable[Path]) -> None:
        if entry.kind == "":
            remove(place)
            return
        now = look(place, is_read=True)
        if entry.kind == "file":
            self._file(place, entry, now, names)
        elif entry.kind == "dir":
            if now.kind != "dir":
                remove(place)
                place.mkdir(parents=True)
            _demand(place, _dress(place, entry))
        elif any(one in {"kind", "target of the link"} for one in differences(entry, now)):
            place.parent.mkdir(parents=True, exist_ok=True)
            new = _newcomer(place)
            if entry.kind == "link":
                new.symlink_to(native(entry.link))
            else:
                os.mknod(new, entry.type | 0o600, entry.device)
            _take_place(new, place, entry)
        else:
            _demand(place, _dress(place, entry))

    def _file(self, place: Path, entry: Entry, now: Entry, names: Iterable[Path]) -> None:
        is_old = now.kind == "file" and now.inode == entry.inode
        is_shared = is_old and now.links > 1
        if entry.links > 1 and not is_old and (twin := _twin(entry, names)) is not None:
            if os.lstat(twin).st_ino != now.inode:
                new = _newcomer(place)
                os.link(twin, new)
                _clear(place)
                new.replace(place)
            now = look(place, is_read=True)
            is_shared = True
        is_other = "content" in differences(entry, now, is_moved=True)
        if is_shared and is_other:
            # All its names must get the content back: it is written into the file that they share.
            with self.content(entry, place) as content, place.open("r+b") as target:
                shutil.copyfileobj(content, target, 4 * SMALL)
                target.truncate()
                target.flush()
                os.fsync(target.fileno())
        if is_shared or (is_old and not is_other):
            _demand(place, _dress(place, entry))
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        new = _newcomer(place)
        with self.content(entry, place) as content, _create(new) as target:
            shutil.copyfileobj(content, target, 4 * SMALL)
            target.flush()
            os.fsync(target.fileno())
        _take_place(new, place, entry)

    def content(self, entry: Entry, place: Path) -> IO[bytes]:
        """The former content of a file. Raises GpustackError if the copy is missing or damaged."""
        begin, plus, length = entry.kept.partition("+")
        if plus:
            with self._small.open("rb") as contents:
                contents.seek(int(begin))
                content = contents.read(int(length))
            if len(content) != int(length) or (entry.sum and sum_of(content) != entry.sum):
                msg = "its backup is incomplete"
                raise GpustackError(msg, code="backup-damaged", where=str(place))
            return io.BytesIO(content)
        copy = self.folder / entry.kept
        found = copy.lstat() if entry.kept and copy.exists() else None
        # A copy that is a hard link changes together with the old file.
        is_link = found is not None and found.st_ino == entry.inode and found.st_mtime_ns != entry.mtime
        if found is None or found.st_size != entry.size or is_link:
            msg = "was changed in place, and its old content was not backed up"
            raise GpustackError(msg, code="backup-damaged", where=str(place))
        return copy.open("rb")


class _Contents:
    """The file that small contents are appended to, in large writes; a failed write is cut off again."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._begin = self._end = os.fstat(self._handle).st_size
        self._waiting: list[bytes] = []
        self._is_synced = False

    def append(self, content: bytes) -> int:
        """The place in the file where the content will be."""
        place = self._end
        self._waiting.append(content)
        self._end += len(content)
        if len(self._waiting) >= 1000 or len(content) > SMALL // 8:
            self._write()
        return place

    def _write(self) -> None:
        left = memoryview(b"".join(self._waiting))
        self._waiting.clear()
        while left:
            left = left[os.write(self._handle, left) :]

    def sync(self) -> None:
        self._write()
        os.fsync(self._handle)
        self._is_synced = True

    def close(self) -> None:
        if not self._is_synced:
            os.ftruncate(self._handle, self._begin)
        os.close(self._handle)


def _create(place: Path) -> IO[bytes]:
    """A new file that nobody else can read yet."""
    return os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


def _newcomer(place: Path) -> Path:
    """The temporary path of what is being restored; nothing exists there."""
    new = place.with_name(beside(place.name, "gpustack-back"))
    remove(new)
    return new


def _clear(place: Path) -> None:
    """Remove a folder that occupies the place of something to restore: a rename cannot replace it."""
    if place.is_dir() and not place.is_symlink():
        remove(place)


def _take_place(new: Path, place: Path, entry: Entry) -> None:
    failed = _dress(new, entry)
    _clear(place)
    new.replace(place)
    _demand(place, failed)


def _demand(place: Path, failed: dict[str, str]) -> None:
    if failed:
        raise AttributesError(place, failed)


def _dress(place: Path, entry: Entry) -> dict[str, str]:
    """Set owner, attributes, mode and times of a place; return the attributes that failed, and why.

    In this order: a new owner clears capabilities and set-user-id bits, and an ACL redefines the group bits of a mode.
    """
    is_link = entry.kind == "link"
    os.chown(place, entry.uid, entry.gid, follow_symlinks=False)
    failed = set_attributes(str(place), entry.attributes)
    if not is_link:
        place.chmod(entry.mode)
    if entry.kind == "file":
        os.utime(place, ns=(entry.mtime, entry.mtime))
    return failed


def _twin(entry: Entry, names: Iterable[Path]) -> Path | None:
    """A name of the file that still exists under it, else one that was restored already."""
    found = [(one, look(one, is_read=True)) for one in names]
    for one, now in found:
        if now.kind == "file" and now.inode == entry.inode and os.lstat(one).st_dev == entry.disk:
            return one
    # Compare by time of the entry: only a restored file has its content, time, owner and mode all together.
    return next((one for one, now in found if {*differences(entry, now, is_moved=True)} <= {"hard links"}), None)


def duplicate(source: Path, target: Path, *, most: int = SMALL) -> None:
    """Make ``target`` a duplicate of ``source``, with shared blocks if the file system can.

    Otherwise up to ``most`` bytes are copied, and beyond that linked if possible.
    """
    with source.open("rb") as content, _create(target) as new:
        try:
            fcntl.ioctl(new, FICLONE, content.fileno())
        except OSError:
            is_small = source.stat().st_size <= most
        else:
            os.fsync(new.fileno())
            return
        if is_small or source.stat().st_dev != target.stat().st_dev:
            try:
                shutil.copyfileobj(content, new, 4 * SMALL)
                new.flush()
                os.fsync(new.fileno())
            except OSError:
                target.unlink()
                raise
            return
    target.unlink()
    os.link(source, target)


def remove(place: Path) -> None:
    """Remove what is there, folders with all content; links are not followed, mounts are left alone."""
    if place.is_dir() and not place.is_symlink():
        if place == Path("/") or holds_mounts(place):
            msg = "is or contains a mount point, so it is not removed"
            raise GpustackError(msg, code="mounted", where=str(place))
        shutil.rmtree(place)
        return
    with suppress(FileNotFoundError, NotADirectoryError):
        place.unlink()
