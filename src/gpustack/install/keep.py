"""Copies of what is about to be changed: contents, links, modes and owners, and how they are put back."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from gpustack.errors import GpustackError
from gpustack.install.journal import Entry, sync_folder
from gpustack.system.mounts import holds_mounts

_SMALL = 1024 * 1024
"""Contents up to so many bytes lie one after the other in one file; larger ones are cloned, linked or copied."""
_FICLONE = 0x40049409
"""The ioctl by which a copy shares its blocks with the original, where the file system can (linux/fs.h)."""


def look(place: Path | str) -> Entry:
    """What lies at a place now, without its content."""
    try:
        found = os.lstat(place)
    except (FileNotFoundError, NotADirectoryError):
        return Entry()
    return entry_of(found, str(Path(place).readlink()) if stat.S_ISLNK(found.st_mode) else "")


def entry_of(found: os.stat_result, link: str) -> Entry:
    """The entry for the answer of lstat."""
    kind: Literal["file", "dir", "link", "other"] = "other"
    for test, name in ((stat.S_ISREG, "file"), (stat.S_ISDIR, "dir"), (stat.S_ISLNK, "link")):
        if test(found.st_mode):
            kind = name  # type: ignore[assignment]  # one of the four
    is_file = kind == "file"
    return Entry(
        kind=kind,
        mode=stat.S_IMODE(found.st_mode),
        uid=found.st_uid,
        gid=found.st_gid,
        size=found.st_size if is_file else 0,
        mtime=found.st_mtime_ns if is_file else 0,
        inode=found.st_ino if is_file else 0,
        link=link,
    )


def same(one: Entry, other: Entry, *, is_moved: bool = False) -> bool:
    """Whether two entries are of one state; ``is_moved`` leaves the inode out, which a file put back has anew."""
    return (
        one.kind == other.kind
        and one.mtime == other.mtime
        and one.size == other.size
        and (is_moved or one.inode == other.inode)
        and one.mode == other.mode
        and one.uid == other.uid
        and one.gid == other.gid
        and one.link == other.link
    )


class Store:
    """The folder of a run in which contents are kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._small = folder / "contents"

    def keep(self, places: dict[str, tuple[Path, Entry]]) -> dict[str, Entry]:
        """Copy the contents of these files; on the disk before this returns. Names map to places and their entries."""
        files = {name: pair for name, pair in places.items() if pair[1].kind == "file"}
        kept = {name: entry for name, (_, entry) in places.items() if entry.kind != "file"}
        if not files:
            return kept
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._small.open("ab") as contents:
            self._small.chmod(0o600)
            for name, (place, entry) in files.items():
                try:
                    if entry.size <= _SMALL:
                        content = place.read_bytes()
                        word = f"{contents.tell()}+{len(content)}"
                        contents.write(content)
                    else:
                        word = self._large(place)
                except FileNotFoundError:
                    continue
                kept[name] = replace(entry, kept=word)
            contents.flush()
            os.fsync(contents.fileno())
        sync_folder(self._folder)
        return kept

    def _large(self, place: Path) -> str:
        number = sum(1 for _ in self._folder.iterdir())
        copy = self._folder / f"file{number}"
        # Installers put a new file in the place of an old one; whether they did is seen before a link is put back.
        duplicate(place, copy)
        return copy.name

    def put_back(self, place: Path, entry: Entry) -> None:
        """Make ``place`` what ``entry`` says. Raises GpustackError where that cannot be done."""
        try:
            if entry.kind in {"", "link", "file"}:
                self._replace(place, entry)
            elif entry.kind == "dir":
                if not place.is_dir() or place.is_symlink():
                    remove(place)
                    place.mkdir(parents=True)
                os.chown(place, entry.uid, entry.gid)
                place.chmod(entry.mode)
            elif look(place) != entry:
                msg = "was neither file, folder nor link, and was not kept"
                raise GpustackError(msg, where=str(place))
        except OSError as exc:
            msg = f"cannot be put back: {exc.strerror or exc}"
            raise GpustackError(msg, where=str(place)) from exc

    def _replace(self, place: Path, entry: Entry) -> None:
        if entry.kind == "":
            remove(place)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        new = place.with_name(f".{place.name[:200]}.gpustack-back")
        remove(new)
        if entry.kind == "link":
            new.symlink_to(entry.link)
            os.chown(new, entry.uid, entry.gid, follow_symlinks=False)
        else:
            self._content(entry, new, place)
            os.chown(new, entry.uid, entry.gid)
            new.chmod(entry.mode)
            os.utime(new, ns=(entry.mtime, entry.mtime))
        if place.is_dir() and not place.is_symlink():
            remove(place)
        new.replace(place)

    def _content(self, entry: Entry, new: Path, place: Path) -> None:
        begin, plus, length = entry.kept.partition("+")
        if plus:
            with self._small.open("rb") as contents:
                contents.seek(int(begin))
                content = contents.read(int(length))
            if len(content) != int(length):
                msg = "its kept content is not whole"
                raise GpustackError(msg, where=str(place))
            with new.open("xb") as target:
                target.write(content)
                target.flush()
                os.fsync(target.fileno())
            return
        copy = self._folder / entry.kept
        found = copy.lstat() if entry.kept else None
        if found is None or found.st_size != entry.size:
            msg = "was changed in its place, and its old content was not kept"
            raise GpustackError(msg, where=str(place))
        shutil.copyfile(copy, new)


def duplicate(source: Path, target: Path) -> None:
    """Make ``target`` hold what ``source`` holds, by shared blocks or a link where the file system can."""
    with source.open("rb") as content, target.open("xb") as new:
        try:
            fcntl.ioctl(new, _FICLONE, content.fileno())
        except OSError:
            is_small = source.stat().st_size <= _SMALL
        else:
            return
        if is_small or source.stat().st_dev != target.stat().st_dev:
            shutil.copyfileobj(content, new, 4 * _SMALL)
            new.flush()
            os.fsync(new.fileno())
            return
    target.unlink()
    os.link(source, target)


def remove(place: Path) -> None:
    """Remove what lies there, a folder with all that is in it; links are not followed, mounts are left alone."""
    if place.is_dir() and not place.is_symlink():
        if place == Path("/") or holds_mounts(place):
            msg = "is a mount, or has one in it, and is not removed"
            raise GpustackError(msg, where=str(place))
        shutil.rmtree(place)
        return
    with suppress(FileNotFoundError, NotADirectoryError):
        place.unlink()
