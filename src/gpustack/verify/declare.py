"""How a check is declared, what it is given and what it may answer."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable

from msgspec import Struct, field

from gpustack.matrix.index import Matrix
from gpustack.model.host import Host
from gpustack.model.results import Level, Measurement, Status
from gpustack.system.run import Runner

MODULES = {"driver": "driver", "cuda": "cuda", "cudnn": "cudnn"}
"""Components that have checks, in the order in which they are checked, and the module of each."""

LEVELS: tuple[Level, ...] = ("quick", "smoke", "full")
"""Each level holds those before it."""


class Context(Struct, frozen=True, kw_only=True):
    """What a check may look at.

    ``runner`` runs commands on the host itself; it is None where ``host`` is a saved snapshot, and a check that
    needs a command is then a skip. ``clock`` gives seconds, for durations.
    """

    host: Host
    matrix: Matrix
    runner: Runner | None = None
    clock: Callable[[], float] = time.monotonic


class Outcome(Struct, frozen=True, kw_only=True):
    """What a check's function answers; made by `passed`, `failed`, `skipped`, `needless` and `errored`.

    ``needless`` marks a skip where the host has no use for what is checked (no GPU that needs a fabric manager):
    requiring the whole component does not turn it into a failure.
    """

    status: Status
    reason: str = ""
    fix: str = ""
    detail: str = ""
    expected: str = ""
    actual: str = ""
    measurements: dict[str, Measurement] = field(default_factory=dict)
    evidence: dict[str, str] = field(default_factory=dict)
    needless: bool = False


class Check(Struct, frozen=True, kw_only=True):
    """One check, whole: everything that is known about it stands where it is declared.

    ``needs`` names checks that have to hold before this one makes sense; ``unless`` are conditions of the host under
    which there is nothing to check, each answering with the skip or with None. ``expects`` and ``mends`` are
    sentences: what has to be true, and what to do when it is not. ``limit_s`` is the time limit in seconds.
    """

    id: str
    component: str
    level: Level
    title: str
    expects: str
    mends: str
    function: Callable[[Context], Outcome]
    needs: tuple[str, ...] = ()
    unless: tuple[Callable[[Host], Outcome | None], ...] = ()
    limit_s: float = 10.0


_CHECKS: dict[str, Check] = {}


def check(  # noqa: PLR0913 (one argument for each thing that a declaration says)
    identity: str,
    *,
    title: str,
    expects: str,
    mends: str,
    level: Level = "quick",
    needs: tuple[str, ...] = (),
    unless: tuple[Callable[[Host], Outcome | None], ...] = (),
    limit_s: float = 10.0,
) -> Callable[[Callable[[Context], Outcome]], Callable[[Context], Outcome]]:
    """Declare the decorated function as the check ``identity``, "component.name". Raises ValueError if it is taken."""

    def declare(function: Callable[[Context], Outcome]) -> Callable[[Context], Outcome]:
        if identity in _CHECKS:
            msg = f"two checks are called {identity}"
            raise ValueError(msg)
        _CHECKS[identity] = Check(
            id=identity,
            component=identity.partition(".")[0],
            level=level,
            title=title,
            expects=expects,
            mends=mends,
            function=function,
            needs=needs,
            unless=unless,
            limit_s=limit_s,
        )
        return function

    return declare


def checks_of(component: str) -> tuple[Check, ...]:
    """The checks of a component of ``MODULES`` as declared, its module imported now if need be."""
    importlib.import_module(f"gpustack.verify.checks.{MODULES[component]}")
    return tuple(one for one in _CHECKS.values() if one.component == component)


def passed(
    detail: str = "",
    *,
    actual: str = "",
    measurements: dict[str, Measurement] | None = None,
    evidence: dict[str, str] | None = None,
) -> Outcome:
    """It holds. ``detail`` says what was found."""
    return Outcome(
        status="pass", detail=detail, actual=actual, measurements=measurements or {}, evidence=evidence or {}
    )


def failed(  # noqa: PLR0913 (the parts of a failure that are worth telling apart)
    reason: str,
    fix: str = "",
    *,
    detail: str = "",
    expected: str = "",
    actual: str = "",
    evidence: dict[str, str] | None = None,
) -> Outcome:
    """It does not hold: ``reason`` in the user's words, ``fix`` the command or action that mends it."""
    return Outcome(
        status="fail",
        reason=reason,
        fix=fix,
        detail=detail,
        expected=expected,
        actual=actual,
        evidence=evidence or {},
    )


def skipped(reason: str, fix: str = "") -> Outcome:
    """It cannot be checked here, because of ``reason``; ``fix`` is shown when the check was required."""
    return Outcome(status="skip", reason=reason, fix=fix)


def needless(reason: str, fix: str = "") -> Outcome:
    """There is nothing to check: this host has no use for it. ``fix`` is advice."""
    return Outcome(status="skip", reason=reason, fix=fix, needless=True)


def errored(reason: str, fix: str = "") -> Outcome:
    """The check could not be carried out, which says nothing about the host."""
    return Outcome(status="error", reason=reason, fix=fix)
