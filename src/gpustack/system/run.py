"""Commands as data, run as argument lists. The only importer of subprocess."""

from __future__ import annotations

import os
import subprocess
import time
from typing import Protocol

from msgspec import Struct


class Finished(Struct, frozen=True, kw_only=True):
    """How a command ended. ``code`` is None when it could not be started or ran out of time; ``error`` says why."""

    argv: tuple[str, ...]
    code: int | None
    out: str = ""
    err: str = ""
    seconds: float = 0.0
    error: str = ""


class Runner(Protocol):
    """Whoever runs commands for a stage; tests answer from recordings."""

    def run(self, argv: tuple[str, ...], *, timeout: float = 10.0) -> Finished: ...


class LocalRunner:
    """Runs commands on this machine: no shell, no standard input, a fixed locale, a time limit in seconds."""

    def run(self, argv: tuple[str, ...], *, timeout: float = 10.0) -> Finished:
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": "C"}
        started = time.monotonic()
        try:
            done = subprocess.run(  # noqa: S603 (an argument list of our own; no shell)
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, env=environment, check=False
            )
        except FileNotFoundError:
            return Finished(argv=argv, code=None, error=f"{argv[0]} is not installed")
        except subprocess.TimeoutExpired:
            return Finished(argv=argv, code=None, error=f"no answer within {timeout:g} s", seconds=timeout)
        except OSError as exc:
            return Finished(argv=argv, code=None, error=f"{argv[0]} cannot be started: {exc.strerror or exc}")
        return Finished(
            argv=argv,
            code=done.returncode,
            out=done.stdout.decode("utf-8", "replace"),
            err=done.stderr.decode("utf-8", "replace"),
            seconds=time.monotonic() - started,
        )
