"""The C library of the host, where the program itself runs with one of its own."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from gpustack.detect.machine import library_release

SAID = {
    "usr/lib64": b"\0GNU C Library (GNU libc) stable release version 2.28.\nCopyright",
    "lib/x86_64-linux-gnu": b"\0GNU C Library (Debian GLIBC 2.31-13+deb11u11) stable release version 2.31.\n",
}


@pytest.mark.parametrize(("folder", "release"), [("usr/lib64", "glibc 2.28"), ("lib/x86_64-linux-gnu", "glibc 2.31")])
def test_the_file_of_the_library_says_its_release(tmp_path: Path, folder: str, release: str) -> None:
    place = tmp_path / folder
    place.mkdir(parents=True)
    (place / "libc.so.6").write_bytes(b"\x7fELF" + SAID[folder])
    assert library_release(str(tmp_path)) == release


def test_a_host_without_one_has_none(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libc.so.6").write_bytes(b"something else")
    assert library_release(str(tmp_path)) == ""


def test_a_process_that_its_loader_started_looks_at_the_hosts() -> None:
    """By its own loader, as gpustack as one file is started, and without: here both are the same library."""
    loader = next(iter(sorted(Path("/").glob("lib*/ld-linux-*"))), None)
    if loader is None or platform.libc_ver()[0] != "glibc":
        pytest.skip("needs glibc's loader")
    code = (
        "from gpustack.detect import machine as m; from gpustack.system.run import LocalRunner as R;"
        "print(m._has_own_library(), m.ThisMachine(R()).glibc)"
    )
    command = [str(Path(sys.executable).resolve()), "-c", code]
    environment = {"PYTHONPATH": ":".join(sys.path)}
    told = [
        subprocess.run([*front, *command], env=environment, capture_output=True, text=True, check=True).stdout
        for front in ((), (str(loader),))
    ]
    assert told == [f"False glibc {platform.libc_ver()[1]}\n", f"True glibc {platform.libc_ver()[1]}\n"]
