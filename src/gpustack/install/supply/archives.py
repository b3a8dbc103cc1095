"""Archives are inspected before unpacking: nothing may land outside the folder or gain rights."""

from __future__ import annotations

import posixpath
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, cast

from msgspec import Struct

from gpustack.errors import GpustackError
from gpustack.model.actions import Unpack, Words
from gpustack.model.steps import Step
from gpustack.plan.former import actions_of, unpackings_in
from gpustack.system.packed import tar_stream

MOST_BYTES = 64 * 2**30
"""No archive of a stack unpacks to more."""

MOST_MEMBERS = 500_000
_LONGEST_LINK = 4096
_BLOCK = 4096
"""The most bytes that a member takes besides its content, on usual file systems."""

Kind = Literal["file", "folder", "link", "hard link", "special"]


class ArchiveError(GpustackError):
    """An archive that would do more than put files into its folder; nothing of it was unpacked."""

    code = "unsafe-archive"


class Member(Struct, frozen=True, kw_only=True):
    """One entry of an archive; ``size`` is in bytes, ``target`` is that of a link."""

    name: str
    kind: Kind
    size: int = 0
    mode: int = 0
    target: str = ""


class Contents(Struct, frozen=True, kw_only=True):
    """The content of an archive once unpacked."""

    members: int
    size: int


class Unpacking(NamedTuple):
    """An archive to unpack into ``folder``, without the first ``strip`` parts of each name."""

    archive: str
    folder: str
    strip: int = 0


def unpackings_of(step: Step) -> tuple[Unpacking, ...]:
    """What a step unpacks."""
    found: list[Unpacking] = []
    for action in actions_of(step):
        match action:
            case Unpack(archive=archive, folder=folder):
                found.append(Unpacking(archive, folder, strip=1))
            case Words(argv=argv):
                found += [Unpacking(*one) for one in unpackings_in(argv)]
            case _:
                pass
    return tuple(found)


def inspect(path: Path, strip: int = 0) -> Contents:
    """Inspect a tar (gz, bz2, xz, zst or plain) or zip archive; return its content.

    Members are judged by their place without the first ``strip`` parts of their names. Raises ArchiveError if a member
    would leave the folder, is a device, has a set-uid bit, hides behind a link, or if the total is excessive; also if
    the file is damaged or not an archive.
    """
    watch = _Watch(path, strip)
    try:
        for member in _members(path):
            watch.look(member)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, OSError, ValueError) as exc:
        if isinstance(exc, FileNotFoundError):
            raise
        msg = f"is not a readable archive: {exc}"
        raise ArchiveError(msg, where=str(path), hint="download it again: it is damaged or of another type") from exc
    return Contents(members=watch.count, size=watch.size)


def demand_room(path: Path, contents: Contents, folder: Path) -> None:
    """Raise GpustackError if ``contents`` do not fit into the file system of ``folder``, which need not exist."""
    there = next(one for one in (folder, *folder.parents) if one.exists())
    free = shutil.disk_usage(there).free
    size = contents.size + contents.members * _BLOCK
    if size > free:
        msg = (
            f"No space left on device: unpacks to {size / 2**20:,.0f} MiB; {free / 2**20:,.0f} MiB are free in {there}"
        )
        raise GpustackError(msg, code="disk-full", where=str(path), hint=f"make room on the file system of {there}")


class _Watch:
    """Judges one member after another; earlier members decide what a later name means."""

    def __init__(self, path: Path, strip: int) -> None:
        self.path = path
        self.strip = strip
        self.count = 0
        self.size = 0
        self.links: set[str] = set()
        self.files: set[str] = set()

    def look(self, member: Member) -> None:
        self.count += 1
        self.size += member.size
        if self.size > MOST_BYTES or self.count > MOST_MEMBERS:
            msg = f"unpacks to more than {MOST_BYTES // 2**30} GiB or {MOST_MEMBERS:,} files"
            raise ArchiveError(msg, where=str(self.path), hint=_HINT)
        name = self._inside(member, member.name)
        if not name:
            return  # the folder itself, or what tar drops with the first parts of the name
        if member.kind == "special":
            self._refuse(member, "is a device, a pipe or a socket")
        if member.mode & (stat.S_ISUID | stat.S_ISGID) and member.kind != "folder":
            self._refuse(member, "would run with the rights of its owner (set-uid or set-gid)")
        if name in self.links and member.kind != "link":
            self._refuse(member, "would be written through a link of the same archive")
        if member.kind == "link":
            self._link(member, name)
        elif member.kind == "hard link":
            if self._inside(member, member.target) not in self.files:
                self._refuse(member, "is a hard link to a file that is not in the archive")
        elif member.kind == "file":
            self.files.add(name)

    def _inside(self, member: Member, name: str) -> str:
        """The name after unpacking, which leads neither out of the folder nor through a link; "" for none."""
        if name.startswith("/") or ".." in name.split("/") or "\0" in name:
            self._refuse(member, f"leads out of the folder ({name!r})" if name != member.name else "leads out of it")
        # tar counts "." as a part of the name
        parts = [part for part in name.split("/") if part][self.strip :]
        parts = [part for part in parts if part != "."]
        if any("/".join(parts[:length]) in self.links for length in range(1, len(parts))):
            self._refuse(member, "would be written through a link of the same archive")
        return "/".join(parts)

    def _link(self, member: Member, name: str) -> None:
        parts = [part for part in member.target.split("/") if part not in {"", "."}]
        ups = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
        depth = len(name.split("/")) - 1
        # Behind a name, ".." may start from anywhere: the name may be a link.
        if member.target.startswith("/") or ups > depth or ".." in parts[ups:] or not member.target:
            self._refuse(member, f"is a link that leads out of the folder ({member.target!r})")
        if name in self.files:
            self._refuse(member, "replaces a file by a link")
        self.links.add(name)

    def _refuse(self, member: Member, why: str) -> None:
        msg = f"{posixpath.normpath(member.name)[:200]!r} {why}"
        raise ArchiveError(msg, where=str(self.path), hint=_HINT)


_HINT = (
    "nothing was unpacked: the archive is not packed as its publisher does; compare its checksum with the published one"
)


def _members(path: Path) -> Iterator[Member]:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                yield _zipped(archive, entry)
        return
    with tar_stream(path) as archive:
        for header in archive:
            yield Member(
                name=header.name,
                kind=_kind(header),
                size=header.size if header.isreg() else 0,
                mode=header.mode,
                target=header.linkname if header.issym() or header.islnk() else "",
            )
            # The list of all headers is not needed, and large archives have many.
            cast("list[tarfile.TarInfo]", archive.members).clear()  # type: ignore[attr-defined]


def _kind(header: tarfile.TarInfo) -> Kind:
    if header.isreg():
        return "file"
    if header.isdir():
        return "folder"
    if header.issym():
        return "link"
    return "hard link" if header.islnk() else "special"


def _zipped(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Member:
    mode = entry.external_attr >> 16
    if entry.flag_bits & 1:
        msg = f"{entry.filename!r} is encrypted"
        raise ValueError(msg)
    if "\\" in entry.orig_filename or ":" in entry.orig_filename[:2]:
        msg = f"{entry.orig_filename!r} is not a name that unzip accepts unchanged"
        raise ValueError(msg)
    form = stat.S_IFMT(mode)
    kind: Kind = "folder" if entry.is_dir() else "file"
    if form == stat.S_IFLNK:
        kind = "link"
    elif form not in {0, stat.S_IFREG, stat.S_IFDIR}:
        kind = "special"
    target = ""
    if kind == "link":
        if entry.file_size > _LONGEST_LINK:
            msg = f"the link {entry.filename!r} has {entry.file_size} bytes"
            raise ValueError(msg)
        target = archive.read(entry).decode("utf-8", "replace")
    return Member(name=entry.filename, kind=kind, size=entry.file_size, mode=mode, target=target)
