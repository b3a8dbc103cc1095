"""Other users of the package database: the locks of dpkg, apt, dnf, zypper and rpm, with a time limit."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from contextlib import suppress
from pathlib import Path

from gpustack.install.run.executor import Workplace
from gpustack.system.jobs import born

_RECORD_LOCKS = {
    "dpkg": (
        "/var/lib/dpkg/lock-frontend",
        "/var/lib/dpkg/lock",
        "/var/lib/apt/lists/lock",
        "/var/cache/apt/archives/lock",
    ),
    "rpm": ("/var/lib/rpm/.rpm.lock", "/usr/lib/sysimage/rpm/.rpm.lock"),
    "": (),
}
"""Files on which the tools hold record locks while they work."""

_PID_FILES = {
    "rpm": (
        "/var/cache/dnf/metadata_lock.pid",
        "/var/cache/dnf/download_lock.pid",
        "/var/lib/dnf/rpmdb_lock.pid",
        "/var/run/yum.pid",
        "/run/zypp.pid",
    ),
    "dpkg": (),
    "": (),
}
"""Files with the id of the working process, while it lives."""

_FLOCK = "hhqqi"
"""struct flock of fcntl(2) on 64-bit Linux: type, whence, start, length, process."""


def holder(work: Workplace) -> tuple[str, int] | None:
    """A held lock and the process that holds it, None if all are free."""
    for path in _RECORD_LOCKS[work.tool]:
        process = _record_lock(work.target.followed(path))
        if process:
            return path, process
    for path in _PID_FILES[work.tool]:
        place = work.target.followed(path)
        with suppress(OSError, ValueError):
            process = int(place.read_text(encoding="ascii").split()[0])
            if process != os.getpid() and born(process) and _is_package_tool(process):
                return path, process
    return None


def _record_lock(place: Path) -> int:
    """The process that holds a record lock on the file, 0 for none."""
    try:
        handle = os.open(place, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, process = struct.unpack(_FLOCK, fcntl.fcntl(handle, fcntl.F_GETLK, asked))
    finally:
        os.close(handle)
    return 0 if kind == fcntl.F_UNLCK else process or -1


def _is_package_tool(process: int) -> bool:
    command = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ")
    return any(name in command for name in (b"dnf", b"yum", b"zypper", b"packagekit", b"rpm"))


def wait_until_free(work: Workplace) -> str:
    """Wait for the package database; return what holds it after the time limit, "" if it is free."""
    end = time.monotonic() + work.options.wait
    is_told = False
    while found := holder(work):
        path, process = found
        name = _name(process)
        if time.monotonic() >= end:
            return f"the package database is locked by {name} ({path})"
        if not is_told:
            work.report.say(f"waiting for {name}, which works on the packages ({path})")
            is_told = True
        work.check_interrupts()
        time.sleep(0.2)
    return ""


def _name(process: int) -> str:
    with suppress(OSError):
        return f"{Path(f'/proc/{process}/comm').read_text(encoding='utf-8').strip()} (process {process})"
    return f"process {process}" if process > 0 else "another machine's process"
