"""The running machine, as far as files do not tell: its kernel, its environment, its programs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from gpustack.patterns import later
from gpustack.system.paths import glob
from gpustack.system.run import Runner


class Machine(Protocol):
    """What only a running machine can report."""

    @property
    def runner(self) -> Runner:
        """Runs commands there."""

    @property
    def release(self) -> str:
        """The release of its kernel."""

    @property
    def architecture(self) -> str:
        """What its kernel runs on."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables of the process that reports."""

    @property
    def glibc(self) -> str:
        """The name and version of its C library, "" if unknown."""

    def program(self, name: str) -> str:
        """The path of a program, "" if it is not on the PATH."""

    def nvml(self) -> dict[str, Any] | None:
        """What the driver reports about its GPUs."""


class ThisMachine:
    """The machine that this process runs on."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner

    @property
    def release(self) -> str:
        return os.uname().release

    @property
    def architecture(self) -> str:
        return os.uname().machine

    @property
    def environ(self) -> Mapping[str, str]:
        return os.environ

    @property
    def glibc(self) -> str:
        if _has_own_library():
            return library_release("/")
        return (os.confstr("CS_GNU_LIBC_VERSION") or "") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""

    def program(self, name: str) -> str:
        folders = os.environ.get("PATH", os.defpath).split(":")
        return next((path for path in (f"{folder}/{name}" for folder in folders) if os.access(path, os.X_OK)), "")

    def nvml(self) -> dict[str, Any] | None:
        from gpustack.detect.nvml import read_nvml  # noqa: PLC0415 (imports pynvml)

        return read_nvml()


_LIBRARIES = ("lib64", "usr/lib64", "lib/*-linux-gnu*", "usr/lib/*-linux-gnu*", "lib", "usr/lib")
_RELEASE = later(rb"GNU C Library [^\n]{0,80}release version (\d+\.\d+)")


def _has_own_library() -> bool:
    """Whether this process may have a C library of its own, as gpustack as one file does.

    Its loader was then started by name; without /proc nothing says so.
    """
    try:
        return os.readlink("/proc/self/exe").rpartition("/")[2].startswith("ld-")  # noqa: PTH115 (only a name)
    except OSError:
        return True


def library_release(root: str) -> str:
    """The release of a tree's C library, read in its file ("glibc 2.31"); "" without one."""
    for folder in _LIBRARIES:
        for path in glob(f"{folder}/libc.so.6", root):
            try:
                found = _RELEASE.search(Path(path).read_bytes())
            except OSError:
                continue
            if found is not None:
                return f"glibc {found[1].decode()}"
    return ""
