"""The running machine, as far as files do not tell: its kernel, its environment, its programs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

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
        return (os.confstr("CS_GNU_LIBC_VERSION") or "") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""

    def program(self, name: str) -> str:
        folders = os.environ.get("PATH", os.defpath).split(":")
        return next((path for path in (f"{folder}/{name}" for folder in folders) if os.access(path, os.X_OK)), "")

    def nvml(self) -> dict[str, Any] | None:
        from gpustack.detect.nvml import read_nvml  # noqa: PLC0415 (imports pynvml)

        return read_nvml()
