"""Commands as data, run as argument lists. The only importer of subprocess."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    import subprocess

    from typing_extensions import Self


class Finished(Struct, frozen=True, kw_only=True):
    """How a command ended. ``code`` is None when it could not be started or ran out of time; ``error`` says why."""

    argv: tuple[str, ...]
    code: int | None
    out: str = ""
    err: str = ""
    seconds: float = 0.0
    error: str = ""


@contextlib.contextmanager
def reading(argv: tuple[str, ...]) -> Iterator[IO[bytes]]:
    """The standard output of a command as a stream. Raises OSError if it cannot start or fails.

    What the block leaves unread is discarded: the command is ended.
    """
    import subprocess  # noqa: PLC0415 (a host without GPU is mostly read without a command)

    process = subprocess.Popen(  # noqa: S603 (an argument list of our own; no shell)
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with process:
        if process.stdout is None:
            msg = "no output"
            raise OSError(msg)
        try:
            yield process.stdout
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        msg = f"{argv[0]} ended with {process.returncode}"
        raise OSError(msg)


class Runner(Protocol):
    """Something that runs commands for a stage; tests answer from recordings."""

    def run(
        self,
        argv: tuple[str, ...],
        *,
        timeout: float = 10.0,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Finished:
        """Run ``argv`` for ``timeout`` seconds at most, in ``cwd``, with ``env`` laid over the environment."""


class LocalRunner:
    """Runs commands on this machine: no shell, no standard input, a fixed locale, a time limit in seconds.

    A command leads a process group of its own; when it ends, whatever is left of that group is ended too.
    """

    def run(
        self,
        argv: tuple[str, ...],
        *,
        timeout: float = 10.0,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Finished:
        import subprocess  # noqa: PLC0415

        environment = {**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": "C", **(env or {})}
        started = time.monotonic()
        try:
            # `stop_commands` must know this one as soon as it exists.
            with _LOCK:
                process = subprocess.Popen(  # noqa: S603 (an argument list of our own; no shell)
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=environment,
                    cwd=cwd,
                    start_new_session=True,
                )
                _RUNNING.add(process.pid)
        except FileNotFoundError as exc:
            missing = exc.filename or argv[0]
            return Finished(argv=argv, code=None, error=f"{os.fsdecode(missing)} is not installed")
        except (OSError, ValueError) as exc:
            words = exc.strerror or exc if isinstance(exc, OSError) else exc
            return Finished(argv=argv, code=None, error=f"{argv[0]} cannot be started: {words}")
        out, err, error = _until_done(process, timeout)
        return Finished(
            argv=argv,
            code=None if error else process.returncode,
            out=out.decode("utf-8", "replace"),
            err=err.decode("utf-8", "replace"),
            seconds=time.monotonic() - started,
            error=error,
        )


_RUNNING: set[int] = set()
_LOCK = threading.Lock()
_AFTER_KILL_S = 5.0
"""Seconds to read the pipes of a killed group; a process that left the group could hold them open forever."""


def _until_done(process: subprocess.Popen[bytes], timeout: float) -> tuple[bytes, bytes, str]:
    """Standard output, standard error, and why there is no exit code ("" if there is one)."""
    import subprocess  # noqa: PLC0415

    error = ""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        error = f"no answer within {timeout:g} s"
        _end_group(process.pid)
        try:
            out, err = process.communicate(timeout=_AFTER_KILL_S)
        except subprocess.TimeoutExpired as late:
            out, err = late.stdout or b"", late.stderr or b""
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
    finally:
        _end_group(process.pid)
        with _LOCK:
            _RUNNING.discard(process.pid)
    return out, err, error


def _end_group(leader: int) -> None:
    import signal  # noqa: PLC0415 (a reading command ends no other)

    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def stop_commands() -> None:
    """End every command that a LocalRunner of this process is running, with its whole group."""
    with _LOCK:
        running = tuple(_RUNNING)
    for leader in running:
        _end_group(leader)


def stop_for_good() -> None:
    """End every command and start no more: this process is about to end with its threads."""
    _LOCK.acquire(timeout=_AFTER_KILL_S)  # never released
    for leader in tuple(_RUNNING):
        _end_group(leader)


_TIED = """\
import ctypes, os, signal, sys
parent, argv = int(sys.argv[1]), sys.argv[2:]
def end(*_):
    signal.alarm(10)
    os.kill(command, signal.SIGTERM)
def force(*_):
    os.killpg(0, signal.SIGKILL)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
if os.getppid() != parent:
    sys.exit(1)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
command = os.fork()
if not command:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    try:
        os.execvp(argv[0], argv)
    except OSError as exc:
        sys.exit(f"failed to start {argv[0]}: {exc.strerror}")
signal.signal(signal.SIGALRM, force)
signal.signal(signal.SIGTERM, end)
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
code = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
if os.getppid() != parent:
    force()
if code < 0:
    if code != -signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
"""Starts a command that must not outlive us and watches it: on a signal, or when we are gone, it ends the command and
then the rest of its process group, which a killed command would leave behind."""


class Background:
    """A command that runs in the background until it is stopped; its output goes to a file. A context manager.

    It has its own process group, which ends with it and when this process is told to stop. If this process is killed,
    or the thread that started it ends, the kernel signals the program instead.
    """

    def __init__(
        self, argv: tuple[str, ...], log: Path, *, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        """Start ``argv``. Raises OSError if that fails."""
        import subprocess  # noqa: PLC0415

        with log.open("wb") as stream:
            self._process = subprocess.Popen(  # noqa: S603 (an argument list of our own; no shell)
                (sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()), *argv),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": "C", **(env or {})},
                cwd=cwd,
                start_new_session=True,
            )
        with _LOCK:
            _RUNNING.add(self._process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    def stop(self, patience_s: float = 10.0) -> None:
        """Ask it to end, and end its whole group if it has not within ``patience_s`` seconds."""
        import subprocess  # noqa: PLC0415

        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(patience_s)
        _end_group(self._process.pid)
        self._process.wait()
        with _LOCK:
            _RUNNING.discard(self._process.pid)
