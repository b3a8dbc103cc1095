"""A tree never lets a path out, never blocks, never reads without a limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpustack.detect.tree import MissingFileError, Tree, UnusableFileError


def put(root: Path, path: str, text: str = "x") -> None:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")


def test_absolute_and_climbing_links_stay_inside(tmp_path: Path) -> None:
    put(tmp_path, "outside", "secret")
    root = tmp_path / "root"
    put(root, "inner/file", "inside")
    (root / "absolute").symlink_to("/inner/file")
    (root / "climbing").symlink_to("../../../../inner/file")
    (root / "escape").symlink_to(tmp_path / "outside")
    (root / "up").symlink_to("../outside")
    tree = Tree(str(root))
    assert tree.read_text("/absolute", 100) == "inside"
    assert tree.read_text("/climbing", 100) == "inside"
    assert tree.read_text("/../../inner/../inner/file", 100) == "inside"
    for path in ("/escape", "/up", "/../outside"):
        with pytest.raises(MissingFileError):
            tree.read_text(path, 100)


def test_links_through_folders_and_flattened_links_are_followed(tmp_path: Path) -> None:
    put(tmp_path, "usr/lib/os-release", "ID=x\n")
    put(tmp_path, "etc/os-release", "../usr/lib/os-release")
    put(tmp_path, "lib", "usr/lib")
    put(tmp_path, "usr/lib/libcuda.so.580.95.05", "")
    put(tmp_path, "usr/lib/libcuda.so.1", "libcuda.so.580.95.05")
    tree = Tree(str(tmp_path))
    assert tree.read_text("/etc/os-release", 100) == "ID=x\n"
    assert tree.read_text("/lib/os-release", 100) == "ID=x\n"
    assert tree.link("/lib/libcuda.so.1") == "libcuda.so.580.95.05"
    assert tree.listing("/lib") == ("libcuda.so.1", "libcuda.so.580.95.05", "os-release")
    assert tree.final("/usr/lib/libcuda.so.1") == "/usr/lib/libcuda.so.580.95.05"


def test_circles_fifos_folders_and_binaries_are_unusable(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "self").symlink_to("self/self")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(b"ID=\0\1\2")
    put(tmp_path, "flat1", "./flat2")
    put(tmp_path, "flat2", "./flat1")
    tree = Tree(str(tmp_path))
    for path in ("/a", "/self", "/fifo", "/folder", "/binary", "/flat1"):
        with pytest.raises(UnusableFileError):
            tree.read_text(path, 100)
    assert tree.final("/a") is None
    assert not tree.exists("/a")
    with pytest.raises(UnusableFileError):
        tree.open_stream("/fifo")


def test_limits(tmp_path: Path) -> None:
    put(tmp_path, "long", "0123456789" * 10)
    tree = Tree(str(tmp_path))
    with pytest.raises(UnusableFileError, match="longer than 50 bytes"):
        tree.read_text("/long", 50)
    assert tree.read_bytes("/long", 5, tail=True) == b"56789"
    assert tree.read_bytes("/long", 100) == b"0123456789" * 10


def test_glob_lists_matches_and_dangling_links(tmp_path: Path) -> None:
    put(tmp_path, "usr/local/cuda-12.4/version.json", "{}")
    put(tmp_path, "usr/local/cuda-13.0/version.json", "{}")
    (tmp_path / "usr/local/cuda").symlink_to("cuda-11.8")
    tree = Tree(str(tmp_path))
    assert tree.glob("/usr/local/cuda-*/version.json") == [
        "/usr/local/cuda-12.4/version.json",
        "/usr/local/cuda-13.0/version.json",
    ]
    assert tree.glob("/usr/local/cuda") == ["/usr/local/cuda"]
    assert not tree.leads_somewhere("/usr/local/cuda")
    assert tree.glob("/nowhere/*") == []
