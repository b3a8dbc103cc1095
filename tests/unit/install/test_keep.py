"""What is kept of a place comes back: content, owner, mode, times, attributes, names; each loss is seen and named."""

from __future__ import annotations

import os
import socket
import stat
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from gpustack.errors import GpustackError
from gpustack.install.changes.backups import AttributesError, Backups
from gpustack.install.changes.look import SMALL, differences, is_as, look, same
from gpustack.install.journal.records import Entry

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="owners and capabilities are set by root only")

ACCESS = "system.posix_acl_access"


def acl(user: int) -> bytes:
    """The ACL ``u::rw-,u:USER:r--,g::r--,m::r--,o::---`` as the kernel takes it (linux/posix_acl_xattr.h)."""
    rows = [(0x01, 6, 0xFFFFFFFF), (0x02, 4, user), (0x04, 4, 0xFFFFFFFF), (0x10, 4, 0xFFFFFFFF), (0x20, 0, 0xFFFFFFFF)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)


CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)
"""cap_net_bind_service=ep (linux/capability.h, revision 2)."""

ATTRIBUTES = {
    "user.owner": b"the administrator \xff",
    "trusted.note": b"",
    "security.selinux": b"system_u:object_r:shadow_t:s0\0",
    "security.capability": CAPABILITY,
    ACCESS: acl(12),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder on a file system that keeps attributes."""
    probe = tmp_path / "probe"
    probe.touch()
    try:
        for name, value in ATTRIBUTES.items():
            os.setxattr(probe, name, value)
    except OSError as exc:
        pytest.skip(f"the folder for temporary files is on a file system without these attributes: {exc}")
    probe.unlink()
    return tmp_path


def made(place: Path, content: bytes = b"old\n") -> Path:
    """A file with all that a file can have."""
    place.write_bytes(content)
    os.chown(place, 12, 34)
    for name, value in ATTRIBUTES.items():
        os.setxattr(place, name, value)
    place.chmod(0o4640)
    os.utime(place, ns=(10**18 + 1, 10**18 + 7))
    return place


def kept(folder: Path, *places: Path) -> tuple[Backups, dict[Path, Entry]]:
    """The places as they are, through the journal's own form."""
    store = Backups(folder / "kept")
    entries = store.keep({str(place): (str(place), look(place)) for place in places})
    text = msgspec.json.encode(entries)
    read = msgspec.json.decode(text, type=dict[str, Entry])
    assert read == entries
    return store, {Path(name): entry for name, entry in read.items()}


def told(was: Entry, place: Path) -> list[str]:
    return list(differences(was, look(place, is_read=True), is_moved=True))


HARM: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "removed": (lambda place: place.unlink(), ["kind"]),
    "written": (lambda place: place.write_bytes(b"new!"), ["content", "capabilities"]),
    "replaced": (
        lambda place: subprocess.run(["sed", "-i", "s/old/new/", str(place)], check=True),
        ["content"],
    ),
    "mode": (lambda place: place.chmod(0o600), ["mode", "ACL"]),
    "owner": (lambda place: os.chown(place, 0, 34), ["mode", "owner", "capabilities"]),
    "group": (lambda place: os.chown(place, 12, 0), ["mode", "owner", "capabilities"]),
    "touched": (os.utime, ["time"]),
    "user's attribute": (lambda place: os.removexattr(place, "user.owner"), ["attribute user.owner"]),
    "empty attribute": (lambda place: os.removexattr(place, "trusted.note"), ["attribute trusted.note"]),
    "another attribute": (lambda place: os.setxattr(place, "user.more", b"1"), ["attribute user.more"]),
    "label": (lambda place: os.setxattr(place, "security.selinux", b"etc_t\0"), ["SELinux label"]),
    "capabilities": (lambda place: os.removexattr(place, "security.capability"), ["capabilities"]),
    "ACL": (lambda place: os.setxattr(place, ACCESS, acl(13)), ["ACL"]),
    "no ACL": (lambda place: os.removexattr(place, ACCESS), ["ACL"]),
    "a folder instead": (lambda place: (place.unlink(), place.mkdir(), (place / "one").touch()), ["kind"]),
    "a link instead": (lambda place: (place.unlink(), place.symlink_to("/etc/passwd")), ["kind"]),
    "a pipe instead": (lambda place: (place.unlink(), os.mkfifo(place)), ["kind"]),
}
"""What a step may do to a file, and the words for what is not as it was."""


@pytest.mark.parametrize("harm", HARM)
def test_a_file(folder: Path, harm: str) -> None:
    place = made(folder / "file")
    store, entries = kept(folder, place)
    do, words = HARM[harm]
    do(place)
    found = told(entries[place], place)
    assert set(words) <= set(found), found
    assert not is_as(entries[place], place, look(place), is_moved=True)
    store.put_back(place, entries[place])
    assert told(entries[place], place) == []
    assert place.read_bytes() == b"old\n"
    now = place.stat()
    assert (now.st_uid, now.st_gid, stat.S_IMODE(now.st_mode)) == (12, 34, 0o4640)
    assert now.st_mtime_ns == 10**18 + 7
    assert {name: os.getxattr(place, name) for name in os.listxattr(place)} == ATTRIBUTES
    assert sorted(one.name for one in folder.iterdir()) == ["file", "kept"]


def test_a_change_that_hides_behind_size_and_time(folder: Path) -> None:
    place = made(folder / "file")
    store, entries = kept(folder, place)
    place.write_bytes(b"OLD\n")
    for name, value in ATTRIBUTES.items():
        os.setxattr(place, name, value)
    place.chmod(0o4640)
    os.utime(place, ns=(0, entries[place].mtime))
    now = look(place)
    assert same(entries[place], now)
    assert not is_as(entries[place], place, now)
    store.put_back(place, entries[place])
    assert place.read_bytes() == b"old\n"


def test_what_is_as_it_was_is_not_written_anew(folder: Path) -> None:
    place = made(folder / "file")
    store, entries = kept(folder, place)
    place.chmod(0o600)
    store.put_back(place, entries[place])
    assert place.stat().st_ino == entries[place].inode


@pytest.mark.parametrize("size", [0, 1, SMALL, SMALL + 1, 5 * SMALL])
def test_contents_of_every_size(folder: Path, size: int) -> None:
    content = os.urandom(size)
    place, other = made(folder / "file", content), made(folder / "other", b"other")
    store, entries = kept(folder, place, other)
    with place.open("r+b") as stream:
        stream.write(b"in its place")
    store.put_back(place, entries[place])
    assert place.read_bytes() == content
    assert told(entries[place], place) == []


def test_a_folder(folder: Path) -> None:
    place = folder / "folder"
    place.mkdir()
    os.chown(place, 12, 34)
    place.chmod(0o2750)
    os.setxattr(place, "system.posix_acl_default", acl(12))
    os.setxattr(place, "security.selinux", b"etc_t\0")
    store, entries = kept(folder, place)
    place.rmdir()
    assert told(entries[place], place) == ["kind"]
    place.mkdir()
    assert set(told(entries[place], place)) == {"mode", "owner", "SELinux label", "default ACL"}
    store.put_back(place, entries[place])
    assert told(entries[place], place) == []
    assert set(os.listxattr(place)) == {"system.posix_acl_default", "security.selinux"}


def test_a_file_in_a_folder_with_a_default_acl(folder: Path) -> None:
    os.setxattr(folder, "system.posix_acl_default", acl(12))
    place = folder / "file"
    place.touch()
    os.removexattr(place, ACCESS)
    store, entries = kept(folder, place)
    place.unlink()
    store.put_back(place, entries[place])
    assert os.listxattr(place) == []


def test_a_link(folder: Path) -> None:
    place = folder / "link"
    place.symlink_to(b"of no char\xffset".decode("utf-8", "surrogateescape"))
    os.lchown(place, 12, 34)
    os.setxattr(place, "trusted.note", b"1", follow_symlinks=False)
    store, entries = kept(folder, place)
    place.unlink()
    place.symlink_to("elsewhere")
    assert set(told(entries[place], place)) == {"target of the link", "owner", "attribute trusted.note"}
    store.put_back(place, entries[place])
    assert told(entries[place], place) == []
    assert os.fsencode(place.readlink()) == b"of no char\xffset"


def test_pipes_sockets_and_devices(folder: Path) -> None:
    pipe, device, door = folder / "pipe", folder / "device", folder / "door"
    os.mkfifo(pipe, 0o640)
    os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(door))
        store, entries = kept(folder, pipe, device, door)
        for place, entry in entries.items():
            place.unlink()
            place.write_text("a file instead")
            store.put_back(place, entry)
            assert told(entry, place) == []
    assert (stat.S_ISFIFO(pipe.stat().st_mode), device.stat().st_rdev) == (True, os.makedev(1, 3))
    device.unlink()
    os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(1, 5))
    assert told(entries[device], device) == ["kind"]


def three_names(folder: Path) -> tuple[list[Path], Backups, dict[Path, Entry]]:
    places = [made(folder / "one"), folder / "two", folder / "three"]
    for place in places[1:]:
        os.link(places[0], place)
    return places, *kept(folder, *places)


NAMES: dict[str, Callable[[list[Path]], object]] = {
    "written through one name": lambda places: places[0].write_bytes(b"new"),
    "one replaced": lambda places: subprocess.run(["sed", "-i", "s/old/new/", str(places[0])], check=True),
    "two replaced": lambda places: [
        subprocess.run(["sed", "-i", "s/old/new/", str(place)], check=True) for place in places[:2]
    ],
    "all replaced": lambda places: [
        subprocess.run(["sed", "-i", "s/old/new/", str(place)], check=True) for place in places
    ],
    "one copied over, the same content": lambda places: subprocess.run(
        ["sh", "-c", 'cp -a "$0" "$0.new" && mv "$0.new" "$0"', str(places[1])], check=True
    ),
    "all removed": lambda places: [place.unlink() for place in places],
}


@pytest.mark.parametrize("harm", NAMES)
def test_a_file_of_three_names(folder: Path, harm: str) -> None:
    places, store, entries = three_names(folder)
    NAMES[harm](places)
    assert any(told(entries[place], place) for place in places)
    for _ in range(2):
        for place in places:
            store.put_back(place, entries[place], [other for other in places if other != place])
    assert [told(entries[place], place) for place in places] == [[], [], []]
    assert len({place.stat().st_ino for place in places}) == 1
    assert places[0].read_bytes() == b"old\n"
    assert places[0].stat().st_nlink == 3
    assert sorted(one.name for one in folder.iterdir()) == ["kept", "one", "three", "two"]


def test_a_large_file_that_is_written_in_its_place(folder: Path) -> None:
    """A file above 16 MiB is linked where the file system cannot clone: what is written into it is not undone."""
    place = folder / "large"
    place.write_bytes(bytes(17 * SMALL))
    store, entries = kept(folder, place)
    is_link = place.stat().st_nlink == 2
    with place.open("r+b") as stream:
        stream.write(b"new")
    if is_link:
        with pytest.raises(GpustackError, match="was changed in place, and its old content was not backed up"):
            store.put_back(place, entries[place])
        place.unlink()
    else:
        store.put_back(place, entries[place])
        assert place.read_bytes() == bytes(17 * SMALL)


def test_a_kept_content_that_was_damaged(folder: Path) -> None:
    place = made(folder / "file")
    store, entries = kept(folder, place)
    (folder / "kept" / "contents").write_bytes(b"OLD\n")
    place.unlink()
    with pytest.raises(GpustackError, match="its backup is incomplete"):
        store.put_back(place, entries[place])
    assert not place.exists()


def test_names_of_255_bytes(folder: Path) -> None:
    place = made(folder / ("\N{SNOWMAN}" * 85))
    store, entries = kept(folder, place)
    place.unlink()
    store.put_back(place, entries[place])
    assert told(entries[place], place) == []


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system with hardly any room."""
    place = tmp_path / "tiny"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_attributes_that_a_file_system_does_not_take_are_named(folder: Path) -> None:
    store, entries = kept(folder, made(folder / "file"))
    bare = folder / "bare"
    bare.mkdir()
    subprocess.run(["mount", "-t", "ramfs", "ramfs", str(bare)], check=True)
    try:
        place = bare / "file"
        with pytest.raises(AttributesError) as raised:
            store.put_back(place, entries[folder / "file"])
        assert place.read_bytes() == b"old\n"
        assert place.stat().st_uid == 12
    finally:
        subprocess.run(["umount", str(bare)], check=True)
    assert raised.value.names == ATTRIBUTES.keys()
    assert raised.value.where == str(place)
    assert "SELinux label: Operation not supported" in raised.value.message
    assert "capabilities: Operation not supported" in raised.value.message


def test_no_room_is_said_before_anything_is_copied(folder: Path, tiny: Path) -> None:
    places = [folder / str(number) for number in range(4)]
    for place in places:
        place.write_bytes(bytes(SMALL // 2))
    looks = {str(place): (str(place), look(place)) for place in places}
    with pytest.raises(GpustackError) as raised:
        Backups(tiny / "kept").keep(looks)
    assert raised.value.where == str(tiny / "kept")
    assert "5 MiB have to be free to keep what the step may change" in raised.value.message
    assert not any((tiny / "kept").iterdir())


def test_room_that_ends_in_the_middle_is_given_back(folder: Path, tiny: Path) -> None:
    """The files grow after they were looked at."""
    places = [folder / str(number) for number in range(6)]
    for place in places:
        place.touch()
    looks = {str(place): (str(place), replace(look(place), size=0)) for place in places}
    for place in places:
        place.write_bytes(bytes(SMALL))
    with pytest.raises(GpustackError, match="cannot be backed up: No space left on device"):
        Backups(tiny / "kept").keep(looks)
    assert (tiny / "kept" / "contents").stat().st_size == 0


def test_a_folder_of_copies_is_read_by_its_owner_only(folder: Path) -> None:
    former = os.umask(0)
    try:
        kept(folder, made(folder / "file"), made(folder / "large", bytes(2 * SMALL)))
    finally:
        os.umask(former)
    modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in (folder / "kept", *(folder / "kept").iterdir())}
    assert set(modes.values()) == {0o700, 0o600}
