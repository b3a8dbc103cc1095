"""Long commands: their output goes to a file, they can be stopped with all descendants, and survive our death."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from msgspec import Struct

from gpustack.system.run import Finished


class Job(Struct, frozen=True, kw_only=True):
    """A command whose output is appended to a file.

    Not to a pipe: that would close with us, and a package manager that outlives us must not die of it. ``root`` is
    the tree that it runs in, None for this machine; ``limit`` is in seconds, None for none; ``grace`` is how many
    seconds it gets to end after it was asked to.
    """

    argv: tuple[str, ...]
    log: Path
    root: Path | None = None
    limit: float | None = None
    grace: float = 60.0


class Follower(Protocol):
    """The observer of a job."""

    def started(self, pid: int) -> None:
        """The process exists."""
        ...

    def line(self, text: str) -> None:
        """It printed a line."""
        ...

    def stop(self) -> int:
        """The signal to stop it with, 0 for none."""
        ...


ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "LANGUAGE": "C",
    "DEBIAN_FRONTEND": "noninteractive",
    # If a package has a new default for a file that the user changed, the user's stays; dpkg asks nothing.
    "DPKG_FORCE": "security-mac,downgrade,confdef,confold",
}
_PASSED = ("HOME", "http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY")
_TAIL = 4000
"""The bytes that are kept from the end of a job's output."""


def follow(job: Job, follower: Follower) -> Finished:
    """Run a job in its own session until it ends, is stopped, or times out.

    ``out`` is the end of its output. The command begins after ``started`` has returned: if that raises, or we are
    killed before, it never ran. If something raises later, the command is stopped and gone before the error leaves
    here.
    """
    argv = ("chroot", str(job.root), *job.argv) if job.root else job.argv
    began = time.monotonic()
    with open(job.log, "ab", buffering=0, opener=_private) as output:
        begin = output.tell()
        try:
            process = _started(argv, output)
        except (OSError, ValueError) as exc:  # ValueError: a NUL in an argument
            why = getattr(exc, "strerror", None) or exc
            return Finished(argv=job.argv, code=None, error=f"{argv[0]} cannot be started: {why}")
    session = _Session(process, job.grace)
    try:
        follower.started(process.pid)
        session.let_go()
        error = _until_its_end(session, job, follower, begin)
    finally:
        session.end()
    return Finished(
        argv=job.argv,
        code=None if error else process.returncode,
        out=tail_of(job.log, begin),
        seconds=time.monotonic() - began,
        error=error,
    )


def _private(path: str, flags: int) -> int:
    """Open the log for its owner only: commands may print secrets."""
    return os.open(path, flags, 0o600)


def _started(argv: tuple[str, ...], output: IO[bytes]) -> subprocess.Popen[bytes]:
    """A command that waits at its gate. Raises OSError if there is no such program."""
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    environment = {"HOME": "/root", **passed, **ENVIRONMENT}
    if shutil.which(argv[0], path=environment["PATH"]) is None:
        number = errno.EACCES if "/" in argv[0] and Path(argv[0]).exists() else errno.ENOENT
        raise OSError(number, os.strerror(number))
    return subprocess.Popen(  # noqa: S603 (an argument list of our own)
        ("/bin/sh", "-c", _GATE, "sh", *argv),
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd="/",
        umask=0o022,
        start_new_session=True,
    )


_GATE = 'read -r go && exec "$@" </dev/null'
"""Waits until somebody has recorded the process; if nobody will, because we are gone, it exits silently."""


def _why_not(program: str) -> str:
    return os.strerror(errno.EACCES if "/" in program and Path(program).exists() else errno.ENOENT)


class _Session:
    """A command and everything that it started in its session."""

    def __init__(self, process: subprocess.Popen[bytes], grace: float) -> None:
        self.process = process
        self.reason = ""
        self._since = born(process.pid)
        self._grace = grace
        self._kill_at = 0.0

    def let_go(self) -> None:
        """Let the command begin."""
        if self.process.stdin is not None:
            with suppress(BrokenPipeError), self.process.stdin as gate:
                gate.write(b"go\n")

    def stop(self, reason: str, number: int = signal.SIGTERM) -> None:
        """Ask it to end, once; kill what is left after the grace period."""
        if not self.reason:
            self.reason = reason
            self._kill_at = time.monotonic() + self._grace
            # What asks us to end may mean something else to others: package managers ignore SIGHUP.
            asks = number in {signal.SIGINT, signal.SIGTERM}
            self._signal(number if asks else signal.SIGTERM)
        elif time.monotonic() > self._kill_at:
            self._signal(signal.SIGKILL)

    def is_over(self) -> bool:
        """Whether the command has ended and, if it was stopped, all that it started too."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=_LOOK)
            if not self.reason or not self._find_remaining():
                return True
            time.sleep(_LOOK)
        return False

    def end(self) -> None:
        """Stop the command if it still runs, and wait for its end.

        If the command ended by itself, what it left running stays: that is a package's daemon.
        """
        if self.process.stdin is not None:
            self.process.stdin.close()
        if self.process.returncode is None:
            self.stop("its caller has ended")
            while not self.is_over():
                self.stop("")

    def _signal(self, number: int) -> None:
        left = self._find_remaining()
        signal_group(self.process.pid, number)
        for pid in left:
            # Shells with job control put their children into groups of their own.
            with suppress(ProcessLookupError):
                if os.getpgid(pid) != self.process.pid:
                    os.kill(pid, number)

    def _find_remaining(self) -> tuple[int, ...]:
        return still_running(self.process.pid, self._since)


_LOOK = 0.1
"""Seconds between two checks of a command's output, or of its remains."""


def _until_its_end(session: _Session, job: Job, follower: Follower, begin: int) -> str:
    """Wait for the end and pass on its lines; return why it was stopped, "" if it ended by itself."""
    end = time.monotonic() + job.limit if job.limit is not None else None
    with job.log.open("rb") as output:
        output.seek(begin)
        rest = b""
        while True:
            is_over = session.is_over()
            *lines, rest = (rest + output.read()).split(b"\n")
            for line in lines:
                follower.line(line.decode("utf-8", "replace").rstrip("\r"))
            if is_over:
                return session.reason
            number = follower.stop()
            if session.reason or number:
                session.stop("interrupted", number)
            elif end is not None and time.monotonic() > end:
                session.stop(f"no end within {job.limit:g} s")


def signal_group(pid: int, number: int) -> None:
    """Send a signal to every process of a group; a missing one is not an error."""
    with suppress(ProcessLookupError):
        os.killpg(pid, number)


def tail_of(log: Path, begin: int = 0) -> str:
    """The last output in a log, from ``begin`` on."""
    with log.open("rb") as output:
        size = output.seek(0, os.SEEK_END)
        output.seek(max(begin, size - _TAIL))
        return output.read().decode("utf-8", "replace")


def born(pid: int) -> int:
    """When a process was started, in clock ticks after the boot; 0 if it is gone, or a zombie."""
    state = _state(pid)
    return state.born if state is not None and not state.is_dead else 0


def still_running(leader: int, since: int) -> tuple[int, ...]:
    """The ids of the processes in the session that `follow` gave a command; none once all have ended.

    ``leader`` is the id that ``started`` received and ``since`` what `born` returned for it, in this boot of the
    kernel. The command itself may be over while its children still run: `make` was killed, its compilers were not.
    The kernel does not reuse an id as long as its session exists. Processes with a session of their own, such as
    daemons, are not included.
    """
    first = _state(leader)
    if not since or (first is not None and first.born != since):
        return ()  # the kernel has reused the id
    found = []
    for place in os.scandir("/proc"):
        if place.name.isdecimal():
            state = _state(int(place.name))
            if state is not None and state.session == leader and not state.is_dead and state.born >= since:
                found.append(int(place.name))
    return tuple(sorted(found))


class _State(Struct, frozen=True, kw_only=True):
    """A process as the kernel describes it."""

    is_dead: bool
    session: int
    born: int


def _state(pid: int) -> _State | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return _State(is_dead=fields[0] in {"Z", "X"}, session=int(fields[3]), born=int(fields[19]))
