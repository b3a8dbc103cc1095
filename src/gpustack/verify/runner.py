"""Runs checks in the order of their needs and turns what they answer into results."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from gpustack.errors import UnsupportedError, UsageError
from gpustack.model.facts import COMPONENTS
from gpustack.model.results import CheckResult, Level
from gpustack.system.run import Finished, Runner
from gpustack.verify.declare import LEVELS, MODULES, Check, Context, Outcome, checks_of, errored, skipped

_ENDED = {"fail": "failed", "error": "could not be carried out"}


class LimitedRunner:
    """A runner that gives no command more time than is left of the check's own limit."""

    def __init__(self, inner: Runner, context: Context, limit_s: float) -> None:
        self._inner = inner
        self._clock = context.clock
        self._end = context.clock() + limit_s

    def run(self, argv: tuple[str, ...], *, timeout: float = 10.0) -> Finished:
        """Run ``argv`` for ``timeout`` seconds or as long as is left; see `gpustack.system.run.Runner`."""
        left = self._end - self._clock()
        if left <= 0:
            return Finished(argv=argv, code=None, error="the check's time was used up before this command")
        return self._inner.run(argv, timeout=min(timeout, left))


class _Required(Struct, frozen=True):
    """What has to be checked: whole components, and checks by id."""

    components: frozenset[str]
    checks: frozenset[str]


def run_checks(
    components: Iterable[str], level: Level, context: Context, require: Iterable[str] = ()
) -> tuple[CheckResult, ...]:
    """The results of the checks of ``components`` (all, if none is named) up to ``level``, in the order of running.

    Each of ``require`` is a component or the id of a check: its skips become failures, and it is run even if its
    component is not asked for. Raises UsageError for an unknown name, UnsupportedError for a component or level
    that has no checks.
    """
    asked = tuple(dict.fromkeys(components))
    for component in asked:
        _known_component(component)
    required = _required(tuple(require))
    chosen = set(asked or MODULES) | required.components | {name.partition(".")[0] for name in required.checks}
    _refuse_empty_level(level)
    wanted = LEVELS[: LEVELS.index(level) + 1]
    checks = [one for name in MODULES if name in chosen for one in checks_of(name) if one.level in wanted]
    results: dict[str, CheckResult] = {}
    for one in _in_order(checks):
        results[one.id] = _run_one(one, context, results, required)
    return tuple(results.values())


def _run_one(check: Check, context: Context, done: dict[str, CheckResult], required: _Required) -> CheckResult:
    started = context.clock()
    outcome = _unmet(check, done) or _answer(check, context)
    seconds = max(0.0, context.clock() - started)
    if seconds > check.limit_s and outcome.status != "fail":
        outcome = errored(f"took {seconds:.1f} s, the limit is {check.limit_s:g} s")
    must = check.id in required.checks or (check.component in required.components and not outcome.needless)
    if outcome.status == "skip" and must:
        outcome = msgspec.structs.replace(outcome, status="fail", reason=f"required, but {outcome.reason}")
    return CheckResult(
        id=check.id,
        component=check.component,
        status=outcome.status,
        title=check.title,
        level=check.level,
        duration_s=round(seconds, 6),
        reason=_clean(outcome.reason),
        fix=_clean(outcome.fix or (check.mends if outcome.status == "fail" else "")),
        detail=_clean(outcome.detail),
        expected=_clean(outcome.expected or (check.expects if outcome.status == "fail" else "")),
        actual=_clean(outcome.actual),
        measurements=outcome.measurements,
        evidence={_clean(name): _clean(text) for name, text in outcome.evidence.items()},
    )


def _clean(text: str) -> str:
    """``text`` as UTF-8 can hold it: names of files on a host may be no text at all."""
    return text.encode("utf-8", "replace").decode()


def _unmet(check: Check, done: dict[str, CheckResult]) -> Outcome | None:
    """A skip when a check that this one needs has not held. A need that was skipped, or is not run, is no obstacle."""
    for need in check.needs:
        before = done.get(need)
        if before is not None and before.status in {"fail", "error"}:
            skip = skipped(f"needs {need}, which {_ENDED[before.status]}")
            return msgspec.structs.replace(skip, detail=before.reason)
    return None


def _answer(check: Check, context: Context) -> Outcome:
    limited = context
    if context.runner is not None:
        limited = msgspec.structs.replace(context, runner=LimitedRunner(context.runner, context, check.limit_s))
    try:
        excused = next((outcome for condition in check.unless if (outcome := condition(context.host))), None)
        return excused or check.function(limited)
    except Exception as exc:  # noqa: BLE001 (one broken check must not take the others with it)
        words = str(exc) or "no message"
        return errored(f"the check itself broke ({type(exc).__name__}: {words})")


def _in_order(checks: list[Check]) -> list[Check]:
    """Declared order, except that a check comes after those that it needs. Raises ValueError for a circle."""
    here = {one.id: one for one in checks}
    ordered: dict[str, Check] = {}

    def place(one: Check, path: tuple[str, ...]) -> None:
        if one.id in path:
            msg = f"checks need each other in a circle: {' -> '.join((*path, one.id))}"
            raise ValueError(msg)
        for need in one.needs:
            if need in here and need not in ordered:
                place(here[need], (*path, one.id))
        ordered.setdefault(one.id, one)

    for one in checks:
        place(one, ())
    return list(ordered.values())


def level_named(name: str) -> Level:
    """The level called ``name``. Raises UsageError with the names that there are."""
    found = next((level for level in LEVELS if level == name), None)
    if found is None:
        message = f"no level is called {name!r}"
        raise UsageError(message, where="--level", hint=f"known: {', '.join(LEVELS)}")
    return found


def _known_component(name: str) -> None:
    if name in MODULES:
        return
    if name in COMPONENTS:
        message = f"there are no checks for {name} yet"
        raise UnsupportedError(message, hint=f"components with checks: {', '.join(MODULES)}")
    raise _unknown_name(name, (*MODULES, *COMPONENTS))


def _required(names: tuple[str, ...]) -> _Required:
    for name in names:
        component, dot, _ = name.partition(".")
        if not dot:
            _known_component(name)
            continue
        known = [one.id for one in checks_of(component)] if component in MODULES else []
        if name not in known:
            raise _unknown_name(name, known or [one.id for part in MODULES for one in checks_of(part)])
    return _Required(frozenset(n for n in names if "." not in n), frozenset(n for n in names if "." in n))


def _unknown_name(name: str, candidates: Iterable[str]) -> UsageError:
    import difflib  # noqa: PLC0415 (only on the way to an error)

    kind = "check" if "." in name else "component"
    names = tuple(dict.fromkeys(candidates))
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"
    return UsageError(f"no {kind} is called {name!r}", where="verify", hint=hint)


def _refuse_empty_level(level: Level) -> None:
    """A level that nobody has checks for is refused: less than what was asked must not look like all of it."""
    if level != LEVELS[0] and not any(one.level == level for name in MODULES for one in checks_of(name)):
        built = [step for step in LEVELS if any(one.level == step for name in MODULES for one in checks_of(name))]
        message = f"there are no checks of level {level} yet"
        raise UnsupportedError(message, hint=f"levels with checks: {', '.join(built)}")
