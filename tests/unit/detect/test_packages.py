"""Package databases: dpkg's status, rpm headers, and who built a package."""

from __future__ import annotations

import re
import sqlite3
import struct
from pathlib import Path

import pytest

from gpustack.detect.packages_db import PackageReader
from gpustack.detect.parse.packages import Package, deb_origin, matching, parse_dpkg_status, parse_rpm_lines
from gpustack.detect.parse.rpm_header import parse_header
from gpustack.detect.tree import Tree


def rpm_header(name: str, version: str, release: str, epoch: int | None = None, vendor: str = "NVIDIA") -> bytes:
    """A header blob as rpm stores it: counts, index entries, data."""
    data = b""
    index = []
    for tag, text in ((1000, name), (1001, version), (1002, release), (1011, vendor), (1022, "x86_64")):
        index.append((tag, 6, len(data), 1))
        data += text.encode() + b"\0"
    if epoch is not None:
        data += b"\0" * (-len(data) % 4)
        index.append((1003, 4, len(data), 1))
        data += struct.pack(">I", epoch)
    entries = b"".join(struct.pack(">IIII", *entry) for entry in index)
    return struct.pack(">II", len(index), len(data)) + entries + data


def test_rpm_header_gives_name_version_release_and_epoch() -> None:
    assert parse_header(rpm_header("nvidia-driver-libs", "580.95.05", "1.el9", epoch=3)) == (
        "nvidia-driver-libs", "3", "580.95.05", "1.el9", "x86_64", "NVIDIA",
    )  # fmt: skip
    assert parse_header(rpm_header("kernel", "5.14.0", "427.el9"))[1] == ""  # type: ignore[index]


@pytest.mark.parametrize("blob", [b"", b"\0" * 7, b"\xff" * 64, struct.pack(">II", 1, 1 << 30) + b"x" * 40])
def test_rpm_header_of_nonsense_is_none(blob: bytes) -> None:
    assert parse_header(blob) is None


def test_rpm_database_is_read_without_writing(tmp_path: Path) -> None:
    folder = tmp_path / "var/lib/rpm"
    folder.mkdir(parents=True)
    base = sqlite3.connect(folder / "rpmdb.sqlite")
    base.execute("CREATE TABLE Packages (hnum INTEGER PRIMARY KEY, blob BLOB NOT NULL)")
    blobs = [rpm_header("kmod-nvidia-open-dkms", "580.95.05", "1.el9", 3), rpm_header("bash", "5.1", "9"), b"junk"]
    base.executemany("INSERT INTO Packages (blob) VALUES (?)", [(blob,) for blob in blobs])
    base.commit()
    base.close()
    reader = PackageReader(Tree(str(tmp_path)))
    lines = reader.rpm_lines()
    assert lines == ("kmod-nvidia-open-dkms\t3\t580.95.05\t1.el9\tx86_64\tNVIDIA",)
    assert not reader.faults
    (package,) = parse_rpm_lines(lines)
    assert (package.upstream, package.origin, package.epoch) == ("580.95.05", "nvidia", "3")
    assert sorted(path.name for path in folder.iterdir()) == ["rpmdb.sqlite"]


@pytest.mark.parametrize(("name", "words"), [("rpmdb.sqlite", "cannot be read"), ("Packages.db", "only rpm itself")])
def test_unreadable_rpm_database_is_a_fault(tmp_path: Path, name: str, words: str) -> None:
    folder = tmp_path / "usr/lib/sysimage/rpm"
    folder.mkdir(parents=True)
    (folder / name).write_bytes(b"not a database" * 100)
    reader = PackageReader(Tree(str(tmp_path)))
    assert reader.rpm_lines() == ()
    assert words in next(iter(reader.faults.values()))


def test_dpkg_status_keeps_only_what_matters(tmp_path: Path) -> None:
    path = tmp_path / "var/lib/dpkg/status"
    path.parent.mkdir(parents=True)
    other = "Package: bash\nStatus: install ok installed\nVersion: 5.2\nDescription: shell\n more\n\n"
    mine = "Package: libcudnn9-cuda-13\nStatus: hold ok installed\nVersion: 9.14.0.64-1\nDescription: a\n b\n\n"
    path.write_text(other * 20_000 + mine + other, encoding="utf-8")
    text = PackageReader(Tree(str(tmp_path))).dpkg_status()
    assert text == "Package: libcudnn9-cuda-13\nStatus: hold ok installed\nVersion: 9.14.0.64-1\n\n"
    (package,) = parse_dpkg_status(text)
    assert (package.upstream, package.held, package.installed) == ("9.14.0.64", True, True)


@pytest.mark.parametrize(
    ("status", "installed"),
    [
        ("install ok installed", True),
        ("install ok half-configured", True),
        ("install ok unpacked", True),
        ("install ok triggers-pending", True),
        ("install reinstreq half-installed", False),
        ("deinstall ok config-files", None),
        ("unknown ok not-installed", None),
    ],
)
def test_dpkg_states(status: str, installed: bool | None) -> None:
    found = parse_dpkg_status(f"Package: nvidia-dkms-580\nStatus: {status}\nVersion: 580.95.05-0ubuntu1\n")
    assert [package.installed for package in found] == ([] if installed is None else [installed])


@pytest.mark.parametrize(
    ("version", "maintainer", "origin"),
    [
        ("580.95.05-0ubuntu1", "NVIDIA <cudatools@nvidia.com>", "nvidia"),
        ("580.95.05-0ubuntu0.24.04.2", "Ubuntu Core Developers <ubuntu-devel-discuss@lists.ubuntu.com>", "ubuntu"),
        ("535.247.01-1~deb12u1", "Debian NVIDIA Maintainers <pkg-nvidia-devel@lists.alioth.debian.org>", "debian"),
        ("580.95.05-0ubuntu1", "", "nvidia"),
        ("580.95.05-0ubuntu0.22.04.1", "", "ubuntu"),
        ("590.44.01-1ubuntu1", "", "nvidia"),
        ("13.1.80-0ubuntu2", "", "ubuntu"),
        ("9.14.0.64-1", "", "nvidia"),
        ("weird", "", ""),
    ],
)
def test_deb_origin(version: str, maintainer: str, origin: str) -> None:
    assert deb_origin(version, maintainer) == origin


NAMES = (
    "nvidia-driver", "nvidia-driver-580", "nvidia-driver-580-server-open", "libnccl2", "libnccl", "nccl", "abc", "ac", "a",
    "b", "b(", "abbc", "cuda-drivers-580", "nvidia-open", "NCCL", "a|b", "xz", "kernel-G06", "c++",
)  # fmt: skip
PATTERNS = (
    "nvidia-driver(?:-\\d+)?(?:-server)?(?:-open)?|nvidia-open", "libnccl2?|nccl", "a[b|c]+|b", "(?:x|y)z", "ab{2}c|b",
    ".*-G0\\d", "a|", "a\\|b", "b[(]|a", "b\\(|abc", "(?i)nccl|abc", "(a)|b", "cuda-drivers.*|ab*c", "", "c\\+\\+",
)  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_packages_match_as_a_regular_expression_says(pattern: str) -> None:
    packages = tuple(Package(name=name, version="1", manager="dpkg") for name in NAMES)
    expected = [name for name in NAMES if re.fullmatch(pattern, name)]
    assert [package.name for package in matching(packages, pattern)] == expected
