"""Taking hosts out of service and back: for Slurm, for Kubernetes, or by a program of the site."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Protocol

from gpustack.errors import UsageError
from gpustack.system.run import Finished, Runner

PATIENCE_S = 3600.0
"""So long a host may take until its jobs have ended."""

LOOK_EVERY_S = 5.0
REASON = "gpustack"

_BUSY = re.compile(r"ALLOCATED|MIXED|COMPLETING")


class DrainError(Exception):
    """A host could not be taken out of service, or back; the text says why."""


class Drain(Protocol):
    """Takes hosts out of service and back. Both raise DrainError."""

    def out(self, host: str) -> bool:
        """Take a host out of service and wait until it has no work; whether it was out before."""

    def back(self, host: str) -> None:
        """Put a host back into service."""


def drain_named(word: str, runner: Runner, wait: Callable[[float], bool], patience: float = PATIENCE_S) -> Drain:
    """The way that ``--drain`` names. ``wait`` sleeps and tells whether to go on. Raises UsageError."""
    if word == "none":
        return NoDrain()
    if word == "slurm":
        return Slurm(runner, wait, patience)
    if word == "kubectl":
        return Kubernetes(runner, patience)
    try:
        argv = tuple(shlex.split(word))
    except ValueError as exc:
        msg = f"{word!r} is no command: {exc}"
        raise UsageError(msg, code="invalid-value", where="--drain", hint="none, slurm, kubectl or a program") from exc
    if not argv:
        msg = "the command is empty"
        raise UsageError(msg, code="invalid-value", where="--drain", hint="none, slurm, kubectl or a program")
    return Program(argv, runner, patience)


class NoDrain:
    """Hosts stay in service."""

    def out(self, host: str) -> bool:  # noqa: ARG002
        return False

    def back(self, host: str) -> None:
        """Nothing to do."""


class Slurm:
    """Nodes of Slurm, by scontrol. A node that somebody else has drained stays drained."""

    def __init__(self, runner: Runner, wait: Callable[[float], bool], patience: float) -> None:
        self._runner = runner
        self._wait = wait
        self._patience = patience

    def out(self, host: str) -> bool:
        state = self._state(host)
        was_out = "DRAIN" in state and f"Reason={REASON}" not in state
        if not was_out:
            _must(
                self._runner.run(
                    ("scontrol", "update", f"NodeName={host}", "State=DRAIN", f"Reason={REASON}"), timeout=60
                )
            )
        waited = 0.0
        while _BUSY.search(self._state(host).partition("State=")[2].partition(" ")[0]):
            if waited >= self._patience:
                msg = f"its jobs have not ended within {self._patience:g} s"
                raise DrainError(msg)
            if not self._wait(LOOK_EVERY_S):
                msg = "stopped while waiting for its jobs"
                raise DrainError(msg)
            waited += LOOK_EVERY_S
        return was_out

    def back(self, host: str) -> None:
        _must(self._runner.run(("scontrol", "update", f"NodeName={host}", "State=RESUME"), timeout=60))

    def _state(self, host: str) -> str:
        return _must(self._runner.run(("scontrol", "--oneliner", "show", "node", host), timeout=60)).out


class Kubernetes:
    """Nodes of Kubernetes, by kubectl. A node that was cordoned before stays cordoned."""

    def __init__(self, runner: Runner, patience: float) -> None:
        self._runner = runner
        self._patience = patience

    def out(self, host: str) -> bool:
        shown = ("kubectl", "get", "node", host, "--output=jsonpath={.spec.unschedulable}")
        was_out = _must(self._runner.run(shown, timeout=60)).out.strip() == "true"
        options = ("--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={self._patience:.0f}s")
        _must(self._runner.run(("kubectl", "drain", host, *options), timeout=self._patience + 60))
        return was_out

    def back(self, host: str) -> None:
        _must(self._runner.run(("kubectl", "uncordon", host), timeout=60))


class Program:
    """A program of the site: called with ``drain HOST`` and ``restore HOST``; 0 means that it is done."""

    def __init__(self, argv: tuple[str, ...], runner: Runner, patience: float) -> None:
        self._argv = argv
        self._runner = runner
        self._patience = patience

    def out(self, host: str) -> bool:
        _must(self._runner.run((*self._argv, "drain", host), timeout=self._patience))
        return False

    def back(self, host: str) -> None:
        _must(self._runner.run((*self._argv, "restore", host), timeout=self._patience))


def _must(done: Finished) -> Finished:
    if done.code == 0:
        return done
    why = done.error or " ".join((done.err or done.out).split())[:300] or f"it ended with {done.code}"
    msg = f"{' '.join(done.argv[:2])}: {why}"
    raise DrainError(msg)
