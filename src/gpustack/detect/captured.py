"""Evidence that a host has sent: the tree of what was read there, and the answers of its commands.

The program that runs on the host only reads; the code that reads this machine interprets what it sends.
"""

from __future__ import annotations

import base64
import binascii
import csv
import errno
import os
import stat
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from gpustack.detect.evidence import CommandOutput, Evidence
from gpustack.detect.gather import gathered
from gpustack.detect.tree import Tree
from gpustack.errors import DocumentError
from gpustack.system.run import Finished

LARGEST = 64 << 20
"""The most bytes of an answer after it is unpacked."""

_FIELDS = (
    "name", "uuid", "pci.bus_id", "pci.device_id", "pci.sub_device_id", "memory.total", "persistence_mode",
    "mig.mode.current", "driver_version",
)  # fmt: skip
_WITH_CAPABILITY = (*_FIELDS, "compute_cap")


def _query(fields: tuple[str, ...]) -> tuple[str, ...]:
    return ("nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")


GPU_QUERIES = (_query(_WITH_CAPABILITY), _query(_FIELDS))
"""Commands that ask the driver about its GPUs; old drivers do not know the last field of the first."""


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """What only the running machine could report; without ``release`` a tree was read."""

    release: str = ""
    machine: str = ""
    environ: dict[str, str] = {}
    path: str = ""
    programs: dict[str, str] = {}
    commands: dict[str, CommandOutput] = {}
    glibc: str = ""


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a host: entries by path without links, what could not be read and why, and the machine.

    An entry is a link ("l", target), a folder ("d", ""), a file whose content was not sent ("f", size), or a content as
    text ("t", text) or base64 ("b", bytes).
    """

    entries: dict[str, tuple[Literal["l", "d", "f", "t", "b"], str | int]]
    faults: dict[str, str] = {}
    machine: Reported = Reported()


def unpack(packed: str) -> Capture:
    """The answer in the text that a host printed. Raises DocumentError if it is something else."""
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(packed, validate=True), LARGEST)
        found = msgspec.json.decode(data, type=Capture)
    except (binascii.Error, zlib.error, msgspec.DecodeError, UnicodeError, ValueError) as exc:
        msg = f"the answer is no evidence: {exc}"
        raise DocumentError(
            msg, code="unreadable-record", hint="run `gpustack fleet detect` again for this host"
        ) from exc
    return found


def evidence_of(capture: Capture) -> Evidence:
    """The evidence in an answer, as `gather` gives it for this machine or a tree."""
    reported = capture.machine
    tree = CapturedTree(capture)
    return gathered(tree, CapturedMachine(reported))


class CapturedTree(Tree):
    """The tree of what was read on a host."""

    def __init__(self, capture: Capture) -> None:
        super().__init__("/")
        self.root = "/dev/null"  # no file of this machine is one of that tree
        self.is_whole = bool(capture.machine.release)
        self._entries = capture.entries
        self._faults = capture.faults
        self._below: dict[str, set[str]] = {"/": set()}
        for path in capture.entries:
            folder, _, name = path.rpartition("/")
            while name and name not in self._below.setdefault(folder or "/", set()):
                self._below[folder or "/"].add(name)
                folder, _, name = folder.rpartition("/")

    def state_at(self, resolved: str) -> os.stat_result:
        kind, value = self._entries.get(resolved, ("", ""))
        if kind == "l":
            return _state(stat.S_IFLNK, 0)
        if kind in {"t", "b"}:
            return _state(stat.S_IFREG, len(self._content(resolved)))
        if kind == "f":
            return _state(stat.S_IFREG, value if isinstance(value, int) else 0)
        if kind == "d" or (resolved or "/") in self._below:
            return _state(stat.S_IFDIR, 0)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    def target_at(self, resolved: str) -> str:
        return str(self._entries[resolved][1])

    def open_at(self, resolved: str) -> int:
        self._demand_readable(resolved)
        kind = self._entries.get(resolved, ("d", ""))[0]
        if kind == "d":
            return os.open("/", os.O_RDONLY | os.O_CLOEXEC)
        with tempfile.TemporaryFile() as file:
            file.write(self._content(resolved))
            file.seek(0)
            return os.dup(file.fileno())

    def names_at(self, resolved: str) -> list[str]:
        self._demand_readable(resolved)
        if resolved not in self._below:
            kind = self._entries.get(resolved, ("", ""))[0]
            if kind != "d":
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return [*self._below.get(resolved, ())]

    def _demand_readable(self, resolved: str) -> None:
        if resolved in self._faults:
            raise OSError(errno.EIO, self._faults[resolved])

    def _content(self, resolved: str) -> bytes:
        kind, value = self._entries.get(resolved, ("", ""))
        if kind == "t":
            return str(value).encode("utf-8", "replace")
        return base64.b64decode(str(value)) if kind == "b" else b""


def _state(kind: int, size: int) -> os.stat_result:
    return os.stat_result((kind, 0, 0, 0, 0, 0, size, 0, 0, 0))


class CapturedMachine:
    """The machine that sent an answer; its commands have run."""

    def __init__(self, reported: Reported) -> None:
        self.runner = self
        self.release = reported.release
        self.architecture = reported.machine
        self.glibc = reported.glibc
        self.environ: Mapping[str, str] = {**reported.environ, "PATH": reported.path}
        self._reported = reported

    def program(self, name: str) -> str:
        return self._reported.programs.get(name, "")

    def run(
        self,
        argv: tuple[str, ...],
        *,
        timeout: float = 10.0,  # noqa: ARG002 (it has run)
        env: Mapping[str, str] | None = None,  # noqa: ARG002
        cwd: Path | None = None,  # noqa: ARG002
    ) -> Finished:
        """The answer that the command gave there; without one it could not be started."""
        known = self._reported.commands.get(" ".join(argv))
        if known is None:
            return Finished(argv=argv, code=None, error=f"{argv[0]} did not run on this host")
        return Finished(argv=argv, code=known.code, out=known.out, err=known.err)

    def nvml(self) -> dict[str, Any] | None:
        """What the driver reports about its GPUs, as NVML would: by its own program, if that is there."""
        for argv, fields in zip(GPU_QUERIES, (_WITH_CAPABILITY, _FIELDS), strict=True):
            done = self.run(argv)
            if done.code == 0:
                rows = [
                    dict(zip(fields, row, strict=False))
                    for row in csv.reader(done.out.splitlines(), skipinitialspace=True)
                ]
                driver = next((row.get("driver_version") for row in rows), None)
                return {"driver": driver, "gpus": [_gpu(row) for row in rows]}
            if done.code is not None and "not a valid field" not in done.out + done.err:
                return {
                    "error": (done.out or done.err).strip().partition("\n")[0][:300]
                    or f"nvidia-smi ended with {done.code}"
                }
        return None


def _gpu(row: dict[str, str]) -> dict[str, Any]:
    told = {name: None if text.startswith("[") or text in {"", "N/A"} else text for name, text in row.items()}
    return {
        "name": told.get("name"),
        "uuid": told.get("uuid"),
        "bus_id": told.get("pci.bus_id"),
        "device_id": _number(told.get("pci.device_id"), 16),
        "subsystem_id": _number(told.get("pci.sub_device_id"), 16),
        "compute_capability": told.get("compute_cap"),
        "memory_mib": _number(told.get("memory.total"), 10),
        "persistence": {"Enabled": 1, "Disabled": 0}.get(told.get("persistence_mode") or ""),
        "mig": {"Enabled": 1, "Disabled": 0}.get(told.get("mig.mode.current") or ""),
    }


def _number(text: str | None, base: int) -> int | None:
    try:
        return int(text or "", base)
    except ValueError:
        return None
