"""How a check is declared, what it receives and what it may return. Authors of checks import this module."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from msgspec import Struct, field

from gpustack.matrix.index import Matrix
from gpustack.model.facts import CHECKED_FRAMEWORKS
from gpustack.model.host import Host
from gpustack.model.results import Level, Measurement, Status
from gpustack.system.run import Finished, Runner

LEVELS: tuple[Level, ...] = ("quick", "smoke", "full")
"""Each level includes those before it."""

COMPONENTS = (
    "driver", "cuda", "cudnn", "nccl", "tensorrt", "nv-codec-headers", "ffmpeg", "imex", "dcgm", "gdrcopy", "gds",
    "nvidia-peermem", "triton",
)  # fmt: skip
"""Components that have checks, in the order in which they are checked.

Those of ``OF_FEW_HOSTS`` are checked where they are installed, named or required.

The checks of a level are in the component's folder: ``cudnn/smoke.py``; where a level has several modules, the others
begin with its name (``driver/smoke_modes.py``). A module is imported when its level or a later one is run.
"""

OF_FEW_HOSTS = frozenset({"imex", "dcgm", "gdrcopy", "gds", "nvidia-peermem"})
Note = Callable[[Literal["starts", "ends"], str], None]
"""Receives the id of each check, and each engine that is measured, when it starts and when it ends."""


def silent(event: Literal["starts", "ends"], identity: str) -> None:
    """Ignore the event."""


ONLY_SAVED = "the host is a saved snapshot: this check runs on the machine itself only"
"""The reason why nothing runs for a saved snapshot."""


_T = TypeVar("_T")


class Shared:
    """Results by name, each computed by the first check that uses it, while others wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._results: dict[str, Any] = {}

    def once(self, name: str, make: Callable[[], _T]) -> _T:
        """The result called ``name``, computed by ``make`` on first use. What ``make`` raises is not kept."""
        with self._lock:
            own = self._locks.setdefault(name, threading.Lock())
        with own:
            if name not in self._results:
                self._results[name] = make()
            return cast("_T", self._results[name])


class Context(Struct, frozen=True, kw_only=True):
    """What a check receives.

    ``runner`` runs commands on the host itself; it is None where ``host`` is a saved snapshot, and a check that
    requires a command is then skipped. ``work`` is a folder of the check's own, in which its commands start; it is
    removed when the check has ended. It is None at level quick and without a runner. ``shared`` holds results that
    several checks use. ``given`` are values from the command line: ``ffmpeg``, ``engine``, ``url``, ``model``.
    ``asked`` are the requested components, none where all are checked: on a host without GPU, costly checks that only
    matter with one run for these only. ``clock`` returns seconds, for durations.
    """

    host: Host
    matrix: Matrix
    runner: Runner | None = None
    work: Path | None = None
    shared: Shared = field(default_factory=Shared)
    given: dict[str, str] = field(default_factory=dict)
    asked: frozenset[str] = frozenset()
    clock: Callable[[], float] = time.monotonic

    @property
    def folder(self) -> Path:
        """``work``, for checks above level quick, which always have it."""
        if self.work is None:
            msg = "a check of level quick has no folder"
            raise RuntimeError(msg)
        return self.work

    def run(
        self, *argv: str, timeout: float = 60.0, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Finished:
        """Run a command on this host, in the check's folder by default; never longer than the check's limit."""
        if self.runner is None:
            return Finished(argv=argv, code=None, error=ONLY_SAVED)
        if env is None and cwd is None:
            return self.runner.run(argv, timeout=timeout)
        return self.runner.run(argv, timeout=timeout, env=env, cwd=cwd)


class Outcome(Struct, frozen=True, kw_only=True):
    """What a check's function returns; made by `passed`, `failed`, `skipped`, `needless` and `errored`.

    ``needless`` marks a skip where the check does not apply to the host (no GPU that requires Fabric Manager):
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
    """One check, with everything known about it in one declaration.

    ``needs`` are checks that must pass before this one makes sense; ``unless`` are conditions of the host under
    which there is nothing to check, each returning the skip or None. ``expects`` and ``fix`` are sentences: what
    must be true, and what to do if it is not. ``limit_s`` is the time limit in seconds.
    ``alone`` marks a measurement: it runs while no other check does. ``is_foreign`` marks a check that is not
    gpustack's own: its code may do anything, for any length of time.
    """

    id: str
    component: str
    level: Level
    title: str
    expects: str
    fix: str
    function: Callable[[Context], Outcome]
    needs: tuple[str, ...] = ()
    unless: tuple[Callable[[Host], Outcome | None], ...] = ()
    limit_s: float = 10.0
    alone: bool = False
    is_foreign: bool = False


_CHECKS: dict[str, Check] = {}


def check(  # noqa: PLR0913 (one argument for each part of a declaration)
    identity: str,
    *,
    title: str,
    expects: str,
    fix: str,
    level: Level = "quick",
    needs: tuple[str, ...] = (),
    unless: tuple[Callable[[Host], Outcome | None], ...] = (),
    limit_s: float = 10.0,
    alone: bool = False,
) -> Callable[[Callable[[Context], Outcome]], Callable[[Context], Outcome]]:
    """Declare the decorated function as the check ``identity``, "component.name". Raises ValueError if it is taken."""

    def declare(function: Callable[[Context], Outcome]) -> Callable[[Context], Outcome]:
        if identity in _CHECKS:
            msg = f"the id {identity} of a check is used twice"
            raise ValueError(msg)
        register(
            Check(
                id=identity,
                component=identity.partition(".")[0],
                level=level,
                title=title,
                expects=expects,
                fix=fix,
                function=function,
                needs=needs,
                unless=unless,
                limit_s=limit_s,
                alone=alone,
                is_foreign=not function.__module__.startswith(f"{__package__}."),
            )
        )
        return function

    return declare


def register(one: Check) -> None:
    """Register a check. Raises ValueError where its id is taken or is not "component.name"."""
    component, _, name = one.id.partition(".")
    if not component or not name:
        msg = f"{one.id!r} is not the id of a check: use COMPONENT.NAME"
        raise ValueError(msg)
    if one.id in _CHECKS:
        msg = f"the id {one.id} of a check is used twice"
        raise ValueError(msg)
    _CHECKS[one.id] = one


def checks_of(component: str, level: Level = "full") -> tuple[Check, ...]:
    """The checks of a component up to ``level`` as declared; their modules are imported on first use."""
    wanted = LEVELS[: LEVELS.index(level) + 1]
    if component in {*COMPONENTS, *CHECKED_FRAMEWORKS}:
        package = "frameworks" if component in CHECKED_FRAMEWORKS else component.replace("-", "_")
        for module in _modules_of(package, wanted):
            importlib.import_module(f"{__package__}.{package}.{module}")
    return tuple(one for one in _CHECKS.values() if one.component == component and one.level in wanted)


def _modules_of(package: str, levels: tuple[Level, ...]) -> tuple[str, ...]:
    """The modules of checks in a component's folder, by level: the one named like the level comes first."""
    names = sorted(path.stem for path in (Path(__file__).parent / package).iterdir())
    return tuple(name for level in levels for name in names if name == level or name.startswith(f"{level}_"))


def components(*, is_all: bool = True) -> tuple[str, ...]:
    """Every component with checks: those of ``COMPONENTS``, frameworks, then those of site checks.

    Without ``is_all`` frameworks are omitted.
    """
    found = dict.fromkeys((*COMPONENTS, *CHECKED_FRAMEWORKS, *(one.component for one in _CHECKS.values())))
    return tuple(name for name in found if is_all or name not in CHECKED_FRAMEWORKS)


def passed(
    detail: str = "",
    *,
    actual: str = "",
    measurements: dict[str, Measurement] | None = None,
    evidence: dict[str, str] | None = None,
) -> Outcome:
    """The check passed. ``detail`` says what was found."""
    return Outcome(
        status="pass", detail=detail, actual=actual, measurements=measurements or {}, evidence=evidence or {}
    )


def failed(  # noqa: PLR0913 (the parts of a failure)
    reason: str,
    fix: str = "",
    *,
    detail: str = "",
    expected: str = "",
    actual: str = "",
    measurements: dict[str, Measurement] | None = None,
    evidence: dict[str, str] | None = None,
) -> Outcome:
    """The check failed: ``reason`` says why, ``fix`` is the command or action that fixes it."""
    return Outcome(
        status="fail",
        reason=reason,
        fix=fix,
        detail=detail,
        expected=expected,
        actual=actual,
        measurements=measurements or {},
        evidence=evidence or {},
    )


def skipped(reason: str, fix: str = "") -> Outcome:
    """The check cannot run here, because of ``reason``; ``fix`` is shown when the check was required."""
    return Outcome(status="skip", reason=reason, fix=fix)


def needless(reason: str, fix: str = "") -> Outcome:
    """The check does not apply to this host. ``fix`` is advice."""
    return Outcome(status="skip", reason=reason, fix=fix, needless=True)


def errored(reason: str, fix: str = "", *, evidence: dict[str, str] | None = None) -> Outcome:
    """The check itself could not run, which is no result about the host."""
    return Outcome(status="error", reason=reason, fix=fix, evidence=evidence or {})
