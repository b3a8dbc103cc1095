"""Selects the checks to run, and turns what each returns into a result."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from gpustack.errors import UnsupportedError, UsageError
from gpustack.model.facts import CHECKED_WITH, COMPONENTS
from gpustack.model.host import Host
from gpustack.model.results import CheckResult, Level, Measurement, Report
from gpustack.verify.declare import (
    LEVELS,
    OF_FEW_HOSTS,
    ONLY_SAVED,
    Check,
    Context,
    Note,
    Outcome,
    checks_of,
    errored,
    silent,
    skipped,
)
from gpustack.verify.declare import components as known_components
from gpustack.verify.frame.commands import LimitedRunner
from gpustack.verify.frame.host_facts import names_of, own_gpus
from gpustack.verify.frame.report import build_report

GPU = "gpu"
"""What `--require` accepts besides components and checks."""

_ENDED = {"fail": "failed", "error": "could not run"}


class _Required(Struct, frozen=True):
    """What is required: whole components, checks by id, and whether a GPU is."""

    components: frozenset[str]
    checks: frozenset[str]
    gpu: bool = False


def run_checks(  # noqa: PLR0913 (the options of one run)
    components: Iterable[str],
    level: Level,
    context: Context,
    require: Iterable[str] = (),
    *,
    kept: Iterable[CheckResult] = (),
    workers: int | None = None,
    note: Note = silent,
    started: str = "",
) -> tuple[CheckResult, ...]:
    """The results of the checks of ``components`` (all, if none is named) up to ``level``, in the order of needs.

    A component that is named has to be there: where all its checks are skipped, the first of them fails. Each of
    ``require`` is a component, the id of a check, or "gpu": its skips become failures, and it runs even if its
    component was not requested. ``kept`` are results of an earlier run that stand. Above level quick, ``workers``
    checks run at a time (as many as the host has room for, if None), and ``note`` receives each that starts or ends.
    Raises UsageError for an unknown name, UnsupportedError for a component or level that has no checks, and
    Interrupted on Ctrl-C. ``started`` goes into the report of an interrupted run.
    """
    asked = tuple(components)
    checks, required = _chosen(asked, level, tuple(require), context.host)
    named = frozenset((*asked, *required.components, *(name.partition(".")[0] for name in required.checks)))
    context = msgspec.structs.replace(context, asked=named)
    before = {one.id: one for one in kept}
    answer = _Answer(context, required)
    done: dict[str, CheckResult] = {}
    try:
        if level != LEVELS[0] and context.runner is not None:
            _in_folders(checks, answer, before, workers, note, done)
        elif any(one.is_foreign for one in checks):
            _one_by_one(checks, answer, before, note, done)
        else:
            for one in checks:
                done[one.id] = before.get(one.id) or answer(one, done)
    except KeyboardInterrupt as exc:
        results = tuple(done.get(one.id) or answer.interrupted(one) for one in checks)
        raise Interrupted(build_report(context.host, results, level, started=started), exc) from exc
    found = answer.demand_found(asked, [done[one.id] for one in checks])
    return (_gpu_found(context), *found) if required.gpu else tuple(found)


def _gpu_found(context: Context) -> CheckResult:
    """The result for ``--require gpu``."""
    gpus = own_gpus(context.host)
    return CheckResult(
        id=f"{GPU}.found",
        component=GPU,
        status="pass" if gpus else "fail",
        title="the host has an NVIDIA GPU",
        reason="" if gpus else "required, but no NVIDIA GPU was found",
        fix="" if gpus else "`lspci -d 10de:` lists what the bus has; in a container start it with `--gpus all`",
        detail=names_of(gpus),
    )


class Interrupted(KeyboardInterrupt):
    """A verification was interrupted. ``report`` has every check; those that had not ended are errors."""

    def __init__(self, report: Report, cause: KeyboardInterrupt) -> None:
        super().__init__(*cause.args)
        self.number: int = getattr(cause, "number", 2)  # 2: SIGINT, which Python itself reports
        self.report = report


def _chosen(
    asked: tuple[str, ...], level: Level, require: tuple[str, ...], host: Host
) -> tuple[list[Check], _Required]:
    for component in asked:
        _known_component(component)
    required = _required(require, level)
    usual = (name for name in known_components(is_all=False) if name not in OF_FEW_HOSTS or name in host.installed)
    chosen = set(asked or usual) | required.components
    chosen |= {name.partition(".")[0] for name in required.checks}
    try:
        ordered = _in_order([one for name in known_components() if name in chosen for one in checks_of(name, level)])
    except ValueError as exc:
        raise UsageError(
            str(exc), code="invalid-checks", where="verify", hint="fix the `needs` of the site checks"
        ) from exc
    return ordered, required


def _one_by_one(
    checks: list[Check], answer: _Answer, before: dict[str, CheckResult], note: Note, done: dict[str, CheckResult]
) -> None:
    """Run checks in order, none past its limit: site checks may hang."""
    from gpustack.verify.frame.schedule import run_side_by_side  # noqa: PLC0415

    def run(one: Check, done: dict[str, CheckResult]) -> CheckResult:
        return before.get(one.id) or answer(one, done)

    run_side_by_side(checks, run, answer.lost, 1, note, done)


def _in_folders(  # noqa: PLR0913, PLR0917 (as `run_side_by_side`)
    checks: list[Check],
    answer: _Answer,
    before: dict[str, CheckResult],
    workers: int | None,
    note: Note,
    done: dict[str, CheckResult],
) -> None:
    """Run checks side by side, each in a folder that is removed when it has ended."""
    import shutil  # noqa: PLC0415 (not needed at level quick, whose start-up counts)

    from gpustack.verify.frame.schedule import room, run_side_by_side  # noqa: PLC0415
    from gpustack.verify.frame.scratch import scratch_folder  # noqa: PLC0415

    with scratch_folder("gpustack-verify-") as root:

        def run(one: Check, done: dict[str, CheckResult]) -> CheckResult:
            if one.id in before:
                return before[one.id]
            folder = root / one.id
            try:
                folder.mkdir(mode=0o700)
                return answer(one, done, folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

        run_side_by_side(checks, run, answer.lost, workers or room(), note, done)


_ERROR_FIX = "retry; the commands and their output are under 'evidence' in the JSON report (`--format json`)"
_LATE_FIX = "check `top` and `nvidia-smi` for other load, then retry"


class _Answer:
    """Runs one check and builds its result."""

    def __init__(self, context: Context, required: _Required) -> None:
        self._context = context
        self._required = required
        self._needless: set[str] = set()

    def __call__(self, check: Check, done: Mapping[str, CheckResult], folder: Path | None = None) -> CheckResult:
        context = msgspec.structs.replace(self._context, work=folder)
        started = context.clock()
        outcome = _unmet(check, done) or _told(_answer(check, context), check, context)
        seconds = max(0.0, context.clock() - started)
        if seconds > check.limit_s and outcome.status in {"pass", "skip"}:
            late = f"the check took {seconds:.1f} s; its limit is {check.limit_s:g} s"
            outcome = errored(late, _LATE_FIX, evidence=outcome.evidence)
        return self._result(check, outcome, seconds)

    def lost(self, check: Check, seconds: float) -> CheckResult:
        """The result of a check that does not return."""
        return self._result(
            check, errored(f"the check did not return within {seconds:.0f} s and was abandoned", _LATE_FIX), seconds
        )

    def interrupted(self, check: Check) -> CheckResult:
        """The result of a check that had not ended, or not started, when the run was interrupted."""
        return self._result(check, errored("interrupted before this check ended", "run the verification again"), 0.0)

    def _result(self, check: Check, outcome: Outcome, seconds: float) -> CheckResult:
        required = self._required
        if outcome.needless:
            self._needless.add(check.id)
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
            fix=_clean(outcome.fix or {"fail": check.fix, "error": _ERROR_FIX}.get(outcome.status, "")),
            detail=_clean(outcome.detail),
            expected=_clean(outcome.expected or (check.expects if outcome.status == "fail" else "")),
            actual=_clean(outcome.actual),
            measurements={_clean(name): _clean_measurement(one) for name, one in outcome.measurements.items()},
            evidence={_clean(name): _clean(text) for name, text in outcome.evidence.items()},
        )

    def demand_found(self, asked: tuple[str, ...], results: list[CheckResult]) -> list[CheckResult]:
        """The results, with a failure of the first check of a required component that was not found."""
        for component in asked:
            places = [place for place, one in enumerate(results) if one.component == component]
            if any(results[place].status != "skip" for place in places):
                continue
            first = next((place for place in places if results[place].id not in self._needless), None)
            if first is not None:
                one = results[first]
                results[first] = msgspec.structs.replace(one, status="fail", reason=f"required, but {one.reason}")
        return results


_LONGEST = 20_000
"""Most characters of a text: nobody reads more, and readers of reports reject it."""


def _clean(given: object) -> str:
    """A text of a check as valid UTF-8 (file names may not be), shortened if excessive."""
    text = given if isinstance(given, str) else str(given)
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} [...]"
    return short.encode("utf-8", "replace").decode()


def _clean_measurement(one: Measurement) -> Measurement:
    """A measurement that every format supports: infinity and NaN become words."""
    is_number = not isinstance(one.value, str) and math.isfinite(one.value)
    return Measurement(value=one.value if is_number else _clean(str(one.value)), unit=_clean(one.unit))


def _unmet(check: Check, done: Mapping[str, CheckResult]) -> Outcome | None:
    """A skip if a check that this one needs did not pass. A need that was skipped or did not run is ignored."""
    for need in check.needs:
        before = done.get(need)
        if before is not None and before.status in {"fail", "error"}:
            skip = skipped(f"requires {need}, which {_ENDED[before.status]}")
            return msgspec.structs.replace(skip, detail=before.reason)
    return None


def _told(outcome: Outcome, check: Check, context: Context) -> Outcome:
    """The outcome; where the check failed on this host itself, with what disturbs it from outside."""
    is_hidden = outcome.status == "skip" and context.host.environment == "container" and not context.host.gpus
    if context.runner is None or not (outcome.status in {"fail", "error"} or is_hidden):
        return outcome
    from gpustack.verify.frame.surroundings import with_surroundings  # noqa: PLC0415 (most checks pass)

    return with_surroundings(outcome, check, context)


def _answer(check: Check, context: Context) -> Outcome:
    if check.level != LEVELS[0] and context.runner is None:
        return skipped(ONLY_SAVED)
    limited = context
    if context.runner is not None:
        limited = msgspec.structs.replace(context, runner=LimitedRunner(context.runner, context, check.limit_s))
    try:
        excused = next((outcome for condition in check.unless if (outcome := condition(context.host))), None)
        outcome = excused or check.function(limited)
        if check.is_foreign:  # its types are not checked
            outcome = msgspec.convert(msgspec.to_builtins(outcome), Outcome)
    except OSError as exc:
        return errored(f"{exc.filename or 'a file'} cannot be read or written: {exc.strerror or exc}", _ERROR_FIX)
    except (Exception, SystemExit) as exc:  # noqa: BLE001 (one broken check must not end the others)
        words = str(exc) or "no message"
        return errored(f"the check itself failed with {type(exc).__name__}: {words}", _BROKEN_FIX)
    return outcome


_BROKEN_FIX = "fix it if it is a site check; otherwise report it with the output of `gpustack detect --record DIR`"


def _in_order(checks: list[Check]) -> list[Check]:
    """The declared order, with each check after those that it needs. Raises ValueError for a circle."""
    here = {one.id: one for one in checks}
    ordered: dict[str, Check] = {}

    def place(one: Check, path: tuple[str, ...]) -> None:
        if one.id in path:
            msg = f"checks need each other: {' -> '.join((*path, one.id))}"
            raise ValueError(msg)
        for need in one.needs:
            if need in here and need not in ordered:
                place(here[need], (*path, one.id))
        ordered.setdefault(one.id, one)

    for one in checks:
        place(one, ())
    return list(ordered.values())


def parse_level(name: str) -> Level:
    """The level called ``name``. Raises UsageError with the known names."""
    found = next((level for level in LEVELS if level == name), None)
    if found is None:
        message = f"unknown level {name!r}"
        raise UsageError(message, code="unknown-level", where="--level", hint=f"known: {', '.join(LEVELS)}")
    return found


def _known_component(name: str) -> None:
    known = known_components()
    if name in known:
        return
    if name in COMPONENTS:
        message = f"{name} has no checks"
        other = CHECKED_WITH.get(name)
        also = f"use `gpustack verify {other}`, which checks it; " if other else ""
        raise UnsupportedError(
            message, code="unknown-component", hint=f"{also}components with checks: {', '.join(known)}"
        )
    raise _unknown_name(name, (*known, *COMPONENTS))


def _required(names: tuple[str, ...], level: Level) -> _Required:
    known = known_components()
    for name in names:
        if name == GPU:
            continue
        component, dot, _ = name.partition(".")
        if not dot:
            _known_component(name)
            continue
        mine = [one.id for one in checks_of(component)] if component in known else []
        if name not in mine:
            raise _unknown_name(name, mine or [one.id for part in known for one in checks_of(part)])
        if name not in {one.id for one in checks_of(component, level)}:
            own = next(one.level for one in checks_of(component) if one.id == name)
            message = f"{name} is a check of level {own}, which does not run at level {level}"
            raise UsageError(message, code="check-not-run", where="--require", hint=f"use --level {own}")
    components = frozenset(name for name in names if "." not in name and name != GPU)
    return _Required(components, frozenset(name for name in names if "." in name), GPU in names)


def _unknown_name(name: str, candidates: Iterable[str]) -> UsageError:
    import difflib  # noqa: PLC0415 (only on the way to an error)

    kind = "check" if "." in name else "component"
    names = tuple(dict.fromkeys(candidates))
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"
    return UsageError(f"unknown {kind} {name!r}", code="unknown-check", where="verify", hint=hint)
