"""Long commands: their output goes to a file, they can be stopped with all they started, and outlive us unharmed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from gpustack.system.run import Finished


class Job(Struct, frozen=True, kw_only=True):
    """A command whose output goes to the end of a file.

    Not to a pipe: a pipe ends with us, and a package manager that outlives us must not die of it half-way. ``root`` is
    the tree that it runs in, None for this machine; ``limit`` is in seconds, None for none; ``grace`` is how many
    seconds it gets to end by itself once it was asked to.
    """

    argv: tuple[str, ...]
    log: Path
    root: Path | None = None
    limit: float | None = None
    grace: float = 60.0


class Follower(Protocol):
    """Whoever follows a job."""

    def started(self, pid: int) -> None:
        """The process is there."""
        ...

    def line(self, text: str) -> None:
        """It printed a line."""
        ...

    def stop(self) -> int:
        """The signal that it is to be ended by, 0 for none."""
        ...


ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "LANGUAGE": "C",
    "DEBIAN_FRONTEND": "noninteractive",
    # A package that brings a new default for a file which somebody changed: theirs stays, nobody is asked.
    "DPKG_FORCE": "security-mac,downgrade,confdef,confold",
}
_PASSED = ("HOME", "http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY")
_TAIL = 4000
"""How much of the end of a job's output is kept, in bytes."""


def follow(job: Job, follower: Follower) -> Finished:
    """Run a job in a process group of its own until it ends, is stopped, or its time is over.

    ``out`` is the end of its output.
    """
    argv = ("chroot", str(job.root), *job.argv) if job.root else job.argv
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    environment = {"HOME": "/root", **passed, **ENVIRONMENT}
    started = time.monotonic()
    with job.log.open("ab") as output:
        begin = output.tell()
        try:
            process = subprocess.Popen(  # noqa: S603 (an argument list of our own; no shell)
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd="/",
                start_new_session=True,
            )
        except OSError as exc:
            return Finished(argv=job.argv, code=None, error=f"{argv[0]} cannot be started: {exc.strerror or exc}")
    follower.started(process.pid)
    error = _until_its_end(process, job, follower, begin)
    return Finished(
        argv=job.argv,
        code=None if error else process.returncode,
        out=tail_of(job.log, begin),
        seconds=time.monotonic() - started,
        error=error,
    )


def _until_its_end(process: subprocess.Popen[bytes], job: Job, follower: Follower, begin: int) -> str:
    """Wait, and hand its lines on meanwhile; why it was stopped, "" where it ended by itself."""
    end = time.monotonic() + job.limit if job.limit is not None else None
    reason, kill_at = "", 0.0
    with job.log.open("rb") as output:
        output.seek(begin)
        rest = b""
        while True:
            try:
                process.wait(timeout=0.1)
            except subprocess.TimeoutExpired:
                is_over = False
            else:
                is_over = True
            *lines, rest = (rest + output.read()).split(b"\n")
            for line in lines:
                follower.line(line.decode("utf-8", "replace").rstrip("\r"))
            if is_over:
                return reason
            now = time.monotonic()
            signal_number = follower.stop()
            if not reason and (signal_number or (end is not None and now > end)):
                reason = "interrupted" if signal_number else f"no end within {job.limit:g} s"
                kill_at = now + job.grace
                signal_group(process.pid, signal_number or signal.SIGTERM)
            elif reason and now > kill_at:
                signal_group(process.pid, signal.SIGKILL)


def signal_group(pid: int, number: int) -> None:
    """Send a signal to every process of a group; one that is gone is no error."""
    with suppress(ProcessLookupError):
        os.killpg(pid, number)


def tail_of(log: Path, begin: int = 0) -> str:
    """The last output in a log, from ``begin`` on."""
    with log.open("rb") as output:
        size = output.seek(0, os.SEEK_END)
        output.seek(max(begin, size - _TAIL))
        return output.read().decode("utf-8", "replace")


def born(pid: int) -> int:
    """When a process was started, in clock ticks after the boot; 0 where there is none, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in {"Z", "X"} else int(fields[19])
