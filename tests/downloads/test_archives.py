"""Hostile archives are refused before anything is unpacked; the publishers' ordinary ones are not."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gpustack.errors import GpustackError
from gpustack.install.supply import archives
from gpustack.install.supply.archives import ArchiveError, Contents, inspect
from gpustack.model.actions import Unpack
from gpustack.plan.commands import spell

Entry = tuple[str, bytes, dict[str, object]]
F, D, L, H = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


def entry(name: str, kind: bytes = F, **more: object) -> Entry:
    return (name, kind, more)


def tar(path: Path, *entries: Entry, mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, kind, more in entries:
            header = tarfile.TarInfo(name)
            header.type = kind
            for key, value in more.items():
                setattr(header, key, value)
            archive.addfile(header, io.BytesIO(bytes(header.size)) if kind == F else None)
    return path


ORDINARY = (
    entry("cudnn-archive", D, mode=0o2755),
    entry("cudnn-archive/lib/libcudnn.so.9.1.0", size=5000, mode=0o755),
    entry("cudnn-archive/lib/libcudnn.so.9", L, linkname="libcudnn.so.9.1.0"),
    entry("cudnn-archive/lib/libcudnn.so", L, linkname="libcudnn.so.9"),
    entry("cudnn-archive/lib64", L, linkname="./lib"),
    entry("cudnn-archive/include/a.h", size=3),
    entry("cudnn-archive/include/b.h", H, linkname="cudnn-archive/include/a.h"),
    entry("cudnn-archive/targets/x/lib", L, linkname="../../lib"),
)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_what_publishers_pack_passes(mode: str, tmp_path: Path) -> None:
    path = tar(tmp_path / "archive", *ORDINARY, mode=mode)
    assert inspect(path) == Contents(members=8, size=5003)


def test_zstandard_passes(tmp_path: Path) -> None:
    plain = tar(tmp_path / "a.tar", *ORDINARY)
    subprocess.run(["zstd", "-q", str(plain)], check=True)
    assert inspect(tmp_path / "a.tar.zst").members == 8
    whole = (tmp_path / "a.tar.zst").read_bytes()
    (tmp_path / "a.tar.zst").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ArchiveError, match="is not a readable archive"):
        inspect(tmp_path / "a.tar.zst")


HOSTILE = {
    "absolute name": ([entry("/etc/cron.d/x", size=1)], "leads out"),
    "dots": ([entry("a/../../etc/x", size=1)], "leads out"),
    "absolute link": ([entry("a", L, linkname="/etc")], "a link that leads out"),
    "link up": ([entry("a/b", L, linkname="../../etc")], "a link that leads out"),
    "link up through a link": (
        [entry("l", L, linkname="."), entry("m", L, linkname="l/../etc")],
        "a link that leads out",
    ),
    "file through a link": ([entry("a", L, linkname="b"), entry("a/x", size=1)], "through a link"),
    "file over a link": ([entry("a", L, linkname="b"), entry("a", size=1)], "through a link"),
    "link over a file": ([entry("a", size=1), entry("a", L, linkname="b")], "replaces a file"),
    "hard link out": ([entry("a", H, linkname="/etc/shadow")], "leads out"),
    "hard link to nothing": ([entry("a", H, linkname="b")], "not in the archive"),
    "hard link to a link": ([entry("a", L, linkname="b"), entry("c", H, linkname="a")], "not in the archive"),
    "device": ([entry("sda", tarfile.BLKTYPE, devmajor=8)], "is a device"),
    "character device": ([entry("mem", tarfile.CHRTYPE, devmajor=1, devminor=1)], "is a device"),
    "pipe": ([entry("pipe", tarfile.FIFOTYPE)], "is a device, a pipe"),
    "set-uid": ([entry("bin/sh", size=1, mode=0o4755)], "rights of its owner"),
    "set-gid": ([entry("bin/sh", size=1, mode=0o2755)], "rights of its owner"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_leaves_the_folder_or_brings_rights_is_refused(name: str, tmp_path: Path) -> None:
    entries, why = HOSTILE[name]
    with pytest.raises(ArchiveError, match=why) as caught:
        inspect(tar(tmp_path / "a.tar.gz", *ORDINARY, *entries, mode="w:gz"))
    assert caught.value.exit_code == 1
    assert "nothing was unpacked" in caught.value.hint


STRIPPED = {
    "link up": ([entry("gp/b/l", L, linkname="../../bin")], "a link that leads out"),
    "link to the top": ([entry("gp/l", L, linkname="../gp")], "a link that leads out"),
    "file through a link of another top": (
        [entry("one/l", L, linkname="b"), entry("two/l/evil", size=1)],
        "through a link",
    ),
    "link over a file of another top": ([entry("one/x", size=1), entry("two/x", L, linkname="y")], "replaces a file"),
    "hard link to what is left out": ([entry("a", size=1), entry("gp/b", H, linkname="a")], "not in the archive"),
}


@pytest.mark.parametrize("name", STRIPPED)
def test_names_are_judged_as_they_are_unpacked(name: str, tmp_path: Path) -> None:
    """Each of these stays inside as long as the first part of the name is there."""
    entries, why = STRIPPED[name]
    path = tar(tmp_path / "a.tar", *entries)
    with pytest.raises(ArchiveError, match=why):
        inspect(path, 1)


def test_what_publishers_pack_lies_where_it_was_judged_to_lie(tmp_path: Path) -> None:
    """By the real tar, as a step calls it: without the first part of names and links, and for nobody else to write."""
    path = tar(tmp_path / "a.tar", *ORDINARY, entry("./cudnn-archive/dot", size=1, mode=0o777))
    assert inspect(path, 1).members == 9
    folder = tmp_path / "out"
    folder.mkdir()
    for command in spell(Unpack(archive=str(path), folder=str(folder))):
        subprocess.run(command, check=True, umask=0o022)
    assert (folder / "cudnn-archive/dot").stat().st_mode & 0o7777 == 0o755
    assert {str(one.relative_to(folder)) for one in folder.rglob("*")} >= {
        "lib/libcudnn.so",
        "include/b.h",
        "cudnn-archive/dot",
    }
    assert all(one.resolve().is_relative_to(folder) for one in folder.rglob("*"))


def test_sizes_beyond_measure_are_refused_by_the_header_alone(tmp_path: Path) -> None:
    header = tarfile.TarInfo("zeros")
    header.size = archives.MOST_BYTES + 1
    path = tmp_path / "bomb.tar"
    path.write_bytes(header.tobuf())
    with pytest.raises(ArchiveError, match="more than 64 GiB"):
        inspect(path)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", *ORDINARY)
    archives.demand_room(path, inspect(path), tmp_path / "not/there/yet")
    with pytest.raises(GpustackError, match="unpacks to 1,048,576,000 MiB; ") as caught:
        archives.demand_room(path, Contents(members=1, size=1_048_576_000 * 2**20), tmp_path)
    assert caught.value.code == "disk-full"


def zipped(path: Path, name: str, content: bytes = b"x", mode: int = stat.S_IFREG | 0o644) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        archive.writestr("folder/readme", "x")
        archive.writestr(info, content)
    return path


def test_a_zip_passes(tmp_path: Path) -> None:
    assert inspect(zipped(tmp_path / "a.zip", "folder/b")) == Contents(members=2, size=2)
    assert inspect(zipped(tmp_path / "a.zip", "folder/b", b"readme", stat.S_IFLNK | 0o777)).members == 2


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: zipped(path, "../x"), "leads out"),
        (lambda path: zipped(path, "/x"), "leads out"),
        (lambda path: zipped(path, "x", b"../etc", stat.S_IFLNK | 0o777), "a link that leads out"),
        (lambda path: zipped(path, "x", mode=stat.S_IFCHR | 0o644), "is a device"),
        (lambda path: zipped(path, "x", mode=stat.S_IFREG | 0o4755), "rights of its owner"),
        (lambda path: zipped(path, "a\\..\\b"), "is not a name that unzip accepts"),
    ],
)
def test_hostile_zips_are_refused(make: Callable[[Path], Path], why: str, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=why):
        inspect(make(tmp_path / "a.zip"))


@pytest.mark.parametrize(
    "content", [b"", b"hello", os.urandom(4000), b"\x1f\x8b" + bytes(100), b"PK\x03\x04" + bytes(50)]
)
def test_what_is_no_archive_is_told(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match="is not a readable archive"):
        inspect(path)


def test_a_cut_off_archive_is_told(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", *ORDINARY, entry("cudnn-archive/lib/large.a", size=50_000))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ArchiveError, match="is not a readable archive"):
        inspect(path)
