"""The state of a place: all metadata of a file, read, hashed and compared."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from gpustack.install.changes.attributes import attributes_of, called
from gpustack.install.changes.names import safe
from gpustack.install.journal.records import Entry

SMALL = 1024 * 1024
"""The largest content, in bytes, that gets a checksum; reading larger ones at every look would take too long."""


def look(place: Path | str, *, is_read: bool = False) -> Entry:
    """The present state of a place, without its content; ``is_read`` adds the checksum of a small file."""
    try:
        entry = entry_of(str(place), os.lstat(place))
        return with_sum(str(place), entry) if is_read else entry
    except (FileNotFoundError, NotADirectoryError):
        return Entry()


def entry_of(place: str, found: os.stat_result) -> Entry:
    """The entry of a place for the result of lstat. Raises OSError."""
    kind: Literal["file", "dir", "link", "other"] = "other"
    for test, name in ((stat.S_ISREG, "file"), (stat.S_ISDIR, "dir"), (stat.S_ISLNK, "link")):
        if test(found.st_mode):
            kind = name  # type: ignore[assignment]  # one of the four
    is_file, is_other = kind == "file", kind == "other"
    return Entry(
        kind=kind,
        mode=stat.S_IMODE(found.st_mode),
        uid=found.st_uid,
        gid=found.st_gid,
        size=found.st_size if is_file else 0,
        mtime=found.st_mtime_ns if is_file else 0,
        ctime=found.st_ctime_ns,
        inode=found.st_ino if is_file else 0,
        link=safe(os.readlink(place)) if kind == "link" else "",  # noqa: PTH115 (plain text: this is what a look costs)
        attributes=attributes_of(place),
        links=found.st_nlink if is_file else 1,
        disk=found.st_dev if is_file and found.st_nlink > 1 else 0,
        type=stat.S_IFMT(found.st_mode) if is_other else 0,
        device=found.st_rdev if is_other else 0,
    )


def with_sum(place: str, entry: Entry) -> Entry:
    """The entry with the checksum of its content, if that is small. Raises OSError."""
    if entry.kind != "file" or entry.size > SMALL or entry.sum:
        return entry
    return replace(entry, sum=sum_of(content_of(place, entry.size)))


def content_of(place: str, size: int) -> bytes:
    """The content of a file of about this size; a link is not followed. Raises OSError."""
    handle = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        content = os.read(handle, size + 1)
        if len(content) == size:
            return content
        parts = [content]
        while parts[-1]:
            parts.append(os.read(handle, SMALL))
        return b"".join(parts)
    finally:
        os.close(handle)


def sum_of(content: bytes) -> str:
    """The checksum of a content in the form of entries."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def differences(was: Entry, now: Entry, *, is_moved: bool = False) -> Iterator[str]:
    """How a place differs from its former state, in the words of messages.

    ``is_moved`` ignores the inode, which is new for a restored file.
    """
    if was.kind != now.kind or was.type != now.type or was.device != now.device:
        yield "kind"
        return
    is_summed = bool(was.sum and now.sum)
    has_new_content = was.size != now.size or (was.sum != now.sum if is_summed else was.mtime != now.mtime)
    found = {
        "content": has_new_content,
        "time": was.mtime != now.mtime and not has_new_content,
        "inode": was.inode != now.inode and not is_moved,
        "target of the link": was.link != now.link,
        "mode": was.mode != now.mode,
        "owner": (was.uid, was.gid) != (now.uid, now.gid),
        "hard links": was.inode != now.inode and now.links < was.links,
    }
    yield from (name for name, differs in found.items() if differs)
    if was.attributes != now.attributes:
        for name in sorted(was.attributes.keys() | now.attributes.keys()):
            if was.attributes.get(name) != now.attributes.get(name):
                yield called(name)


def same(was: Entry, now: Entry, *, is_moved: bool = False) -> bool:
    """Whether a place is in its former state, as ``differences`` judges it; by checksum if both entries have one."""
    return next(differences(was, now, is_moved=is_moved), None) is None


def is_as(was: Entry, place: Path | str, now: Entry, *, is_moved: bool = False) -> bool:
    """Whether a place with the state ``now`` is in its former one: its content is read if its times do not decide."""
    if not same(was, now, is_moved=is_moved):
        return False
    if not was.sum or was.ctime == now.ctime:
        return True
    try:
        return with_sum(str(place), now).sum == was.sum
    except OSError:
        return False
