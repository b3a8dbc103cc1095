"""Rolls a run back, last step first, to the state before it, and checks that this is the state."""

from __future__ import annotations

from msgspec import Struct

from gpustack.errors import GpustackError
from gpustack.install.changes.watch import SHARED
from gpustack.install.journal.history import History
from gpustack.install.journal.records import RollbackBegun, RolledBack
from gpustack.install.run import package_manager_locks as locks
from gpustack.install.run.executor import Workplace
from gpustack.install.run.touched_paths import changes_packages, places_of
from gpustack.install.run.undo import run_all, undo
from gpustack.model.actions import AnyAction
from gpustack.model.steps import Step
from gpustack.plan.former import undo_actions_of
from gpustack.plan.managers import database
from gpustack.plan.undoing import WayBack, way_back

_SUPPLY = ("/etc/apt/", "/etc/dnf/", "/etc/pki/", "/etc/yum", "/etc/zypp/", "/usr/share/keyrings/")
"""The repositories, keys and settings of package managers."""


class RollbackFailedError(GpustackError):
    """Something of the run is left, or something of others is lost."""

    code = "rollback-incomplete"


class Left(Struct, frozen=True, kw_only=True):
    """Differences from before the run: ``run`` are those of the run or its undo, ``later`` only those of others."""

    run: tuple[str, ...] = ()
    later: tuple[str, ...] = ()


def roll_back(work: Workplace) -> None:
    """Undo all begun steps, and report the result.

    Raises RollbackFailedError with every step that could not be undone, and every difference from before.
    """
    _demand_free(work)
    _look_around(work)
    steps = {step.id: step for step in work.plan.steps}
    begun = [steps[name] for name in work.history.begun() if name in steps]
    failed: dict[str, Step] = {}
    said: list[str] = []
    hints: list[str] = []
    for number, step in enumerate(reversed(begun), 1):
        work.check_interrupts()
        work.report.step(number, len(begun), f"roll back: {step.title}")
        blocker = next((name for name in failed if _is_needed_by(work.history, steps[name], step, steps)), "")
        if blocker:
            failed[step.id] = failed[blocker]
            said.append(f"{step.title}: kept, because `{failed[blocker].title}` could not be undone")
            continue
        troubles = undo(work, step, _select_actions(step, "command"))
        said += [_sentence(error) for error in troubles]
        hints += [error.hint for error in troubles if error.hint]
        if troubles:
            failed[step.id] = step
    if not failed:
        troubles = _at_the_end(work, [steps[name] for name in work.history.steps if name in steps])
        said += [_sentence(error) for error in troubles]
        hints += [error.hint for error in troubles if error.hint]
    if said:
        msg = "not everything could be undone:\n" + "\n".join(said)
        ways = "`gpustack install --rollback` retries the rest, `gpustack install --abandon` leaves it as it is"
        raise RollbackFailedError(msg, hint="\n".join([*dict.fromkeys(hints), ways]))
    _conclude(work, _differences(work, [steps[name] for name in work.history.steps if name in steps]))


def _sentence(error: GpustackError) -> str:
    return f"{error.where}: {error.message}" if error.where else error.message


def _demand_free(work: Workplace) -> None:
    """Raise GpustackError if somebody else holds the package database that an undo requires."""
    begun = set(work.history.begun())
    if any(changes_packages(step) for step in work.plan.steps if step.id in begun):
        kept = locks.wait_until_free(work)
        if kept:
            raise GpustackError(
                kept,
                code="package-database-locked",
                hint="wait for it to finish, or wait longer with --wait SECONDS; nothing was undone",
            )


def _look_around(work: Workplace) -> None:
    """Record what others changed since the run, or since an attempt to roll it back ended.

    Not after an interrupted attempt: its effects would be mistaken for changes of others.
    """
    work.journal.demand_room()
    if work.history.is_being_undone():
        if work.history.rollback == "none":
            work.journal.append(RollbackBegun())
        return
    begun = set(work.history.steps)
    found = work.watch.since(_roots([step for step in work.plan.steps if step.id in begun]))
    work.journal.append(RollbackBegun(found=found))


def _roots(steps: list[Step]) -> tuple[str, ...]:
    """The places that any of the steps may change, none of them within another."""
    found = sorted({path for step in steps for path in places_of(step)})
    roots: list[str] = []
    for path in found:
        if not any(path.startswith(f"{root}/") for root in roots):
            roots.append(path)
    return tuple(roots)


def _select_actions(step: Step, way: WayBack) -> list[AnyAction]:
    """The actions of a step's undo that are carried out in this way."""
    return [action for action in undo_actions_of(step) if way_back(action) == way]


def _at_the_end(work: Workplace, steps: list[Step]) -> list[GpustackError]:
    """The final actions on the whole tree, repeated by every attempt: nobody knows how far the last one came."""
    later = dict.fromkeys(action for step in steps for action in _select_actions(step, "at the end"))
    troubles = run_all(work, None, later)
    if any(step.commands for step in steps) and work.target.place("/etc/ld.so.cache").exists():
        work.command(None, ("ldconfig",))
    return troubles


def _is_needed_by(history: History, failed: Step, step: Step, steps: dict[str, Step]) -> bool:
    """Whether the result of ``step`` must stay while ``failed`` is not undone."""
    if step.id in _dependencies(failed, steps):
        return True
    own, other = history.owned_by(step.id), history.owned_by(failed.id)
    if changes_packages(failed):
        if step.kind in {"add-repository", "refresh-index"} or any(path.startswith(_SUPPLY) for path in own):
            return True
        if any(artifact.fingerprint for artifact in step.artifacts):
            return True
    folders = tuple(f"{path}/" for path in own)
    return any(path.startswith(folders) for path in other) or any(
        path.startswith(tuple(f"{one}/" for one in other)) for path in own
    )


def _dependencies(step: Step, steps: dict[str, Step]) -> set[str]:
    """The ids of the steps that it depends on, directly or not."""
    found: set[str] = set()
    todo = list(step.depends_on)
    while todo:
        name = todo.pop()
        if name not in found and name in steps:
            found.add(name)
            todo += steps[name].depends_on
    return found


def _differences(work: Workplace, steps: list[Step]) -> Left:
    """All differences from the state before the run."""
    history = work.history
    run: list[str] = []
    later: list[str] = []
    for path, what in work.watch.differences(_roots(steps)).items():
        is_known = path in history.found
        if not is_known:
            run.append(f"changed during the rollback, by a package script or another program: {path} ({what})")
        elif path in history.brought:
            run.append(f"a folder of the run that contains files added since, kept: {path}")
        elif path in history.touched and path != database.MARKS:
            shared = ", and what the run added to it may still be in it" if path.startswith(SHARED) else ""
            run.append(f"modified since the installation, kept{shared}: {path} ({what})")
        else:
            later.append(f"modified since the installation, kept: {path} ({what})")
    if history.first is not None:
        ours = {name for step in history.steps.values() for name in step.changed}
        there = work.snapshot()
        for name, state in database.difference(database.settled(history.first), database.settled(there)).items():
            now, then = (database.version_in(one) or "absent" for one in (state, history.first.get(name, "")))
            text = f"modified since the installation, kept: package {name} ({now} now, {then} before)"
            (run if name in ours else later).append(text)
    return Left(run=tuple(run), later=tuple(later))


def _conclude(work: Workplace, left: Left) -> None:
    work.journal.append(RolledBack(left=left.run))
    for text in left.later:
        work.report.say(text)
    if left.run:
        msg = "every step was undone, but some things differ from the state before the run:\n" + "\n".join(left.run)
        raise RollbackFailedError(msg, hint="nothing more can be undone: repair by hand what is listed")
    if left.later:
        work.report.say("rolled back: what the run changed was undone, and what others changed since was kept")
    else:
        work.report.say("rolled back: all changes were undone")
