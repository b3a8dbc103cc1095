"""Undoes one step: restores its packages and its places."""

from __future__ import annotations

from collections.abc import Iterable

from gpustack.errors import GpustackError
from gpustack.install.journal.records import UndoBegun, UndoFailed, Undone
from gpustack.install.run import package_manager_locks as locks
from gpustack.install.run.actions import is_left_out
from gpustack.install.run.executor import StoppedError, Workplace
from gpustack.install.run.touched_paths import changes_packages, places_of
from gpustack.model.actions import AnyAction, PackageAction, Words
from gpustack.model.steps import Step
from gpustack.plan.commands import commands_of
from gpustack.plan.former import actions_of, is_of_packages
from gpustack.plan.managers import database
from gpustack.render.commands import command_line
from gpustack.system.run import Finished

_TOLD = 1000
"""The number of characters shown from the end of a failed command's output."""


def undo(work: Workplace, step: Step, actions: Iterable[AnyAction] = ()) -> list[GpustackError]:
    """Carry out ``actions``, then restore packages and places of the step; return what could not be undone.

    Begin, success and failure are recorded. An interrupted attempt continues: its leftovers are its own.
    """
    work.journal.demand_room()
    state = work.history.steps[step.id].state
    if state != "undoing":
        # A rollback has looked at all places already; after a crash nobody knows who changed what.
        is_known = work.history.rollback == "none" and state in {"failed", "undo-failed"}
        found = work.watch.since(places_of(step)) if is_known else {}
        work.journal.append(UndoBegun(step=step.id, found=found))
    troubles = run_all(work, step, actions)
    is_back = True
    if changes_packages(step):
        try:
            packages_back(work, step)
        except StoppedError:
            raise
        except GpustackError as error:
            troubles.append(error)
            is_back = False
    # Removals and installations change configuration too: a package restores its own defaults.
    changed = work.watch.after(places_of(step)) if changes_packages(step) else {}
    if is_back:
        troubles += work.watch.restore(step.id, changed)
    else:
        # A remaining package needs its configuration, links and users; only what others own is restored now.
        work.watch.restore_found(changed)
    if troubles:
        changed = work.watch.after(places_of(step))
        work.journal.append(UndoFailed(step=step.id, reason=troubles[0].message, changed=changed))
    else:
        others = {path: one for path, one in changed.items() if work.history.owner.get(path, step.id) != step.id}
        work.journal.append(Undone(step=step.id, changed=others))
    return troubles


def run_all(work: Workplace, step: Step | None, actions: Iterable[AnyAction]) -> list[GpustackError]:
    """Carry out all actions; return what failed."""
    troubles = []
    for argv in commands_of(action for action in actions if not is_left_out(work, action)):
        done = work.command(step, argv)
        if done.code != 0:
            text = f"`{command_line(argv)}`: {done.error or f'it ended with {done.code}'}"
            troubles.append(
                GpustackError(
                    text, code="command-failed", where=step.title if step else "", hint=done.out.strip()[-_TOLD:]
                )
            )
    return troubles


def packages_back(work: Workplace, step: Step) -> None:
    """Restore the packages that a step changed. Raises GpustackError if that fails.

    A package that somebody moved to a version which the run never had belongs to them, and stays.
    """
    former = work.history.steps[step.id]
    before = former.before or {}
    repair(work, step)
    _move(work, step, {name: before.get(name, "") for name in sorted(former.changed)})
    text = work.watch.former_text(database.MARKS) if work.tool == "dpkg" else ""
    for argv in database.marks(text, sorted(name for name in former.changed if before.get(name))) if text else ():
        _when_free(work, step, argv)
    if work.tool == "rpm" and former.was_cut:
        names = {*former.changed, *_find_named(step, before)} & before.keys()
        _make_whole(work, step, {name: before[name] for name in sorted(names)})


def _move(work: Workplace, step: Step, wanted: database.Snapshot) -> None:
    """Move packages to ``wanted``. Raises GpustackError if they are not there afterwards.

    Twice, because a package may be installable only once another one is gone.
    """
    said: dict[str, str] = {}
    for _ in range(2):
        whole = work.snapshot()
        there = _select_own(work, wanted, whole)
        missing = {name: state for name, state in wanted.items() if name in there and there[name] != state}
        if not missing:
            return
        others = whole.keys() - {name for name, state in missing.items() if not state}
        for ways in database.commands_back(work.tool, work.plan.host.os.family or "", missing, there, others):
            for argv in ways:
                if strangers := _removed_besides(work, argv, missing):
                    said[f"`{command_line(argv)[:200]}`"] = f"not run: it would remove {', '.join(sorted(strangers))}"
                    continue
                done = _when_free(work, step, argv)
                if done.code == 0:
                    break
                said[f"`{command_line(argv)[:200]}`"] = done.error or done.out.strip()[-_TOLD:]
    try:
        database.demand(work.tool, wanted, _select_own(work, wanted, work.snapshot()))
    except GpustackError as error:
        raise GpustackError(
            error.message,
            code="backup-failed",
            where=step.title,
            hint="\n".join([*(f"{argv}: {text}" for argv, text in said.items()), error.hint]),
        ) from error


def _removed_besides(work: Workplace, argv: tuple[str, ...], wanted: database.Snapshot) -> set[str]:
    """The packages that a command of apt would remove although they were installed before the run."""
    look = database.simulated(argv)
    if not look:
        return set()
    try:
        told = work.query(look)
    except GpustackError:
        return set()
    return database.removed(told) - {name.partition(":")[0] for name, state in wanted.items() if not state}


def _select_own(work: Workplace, wanted: database.Snapshot, there: database.Snapshot) -> database.Snapshot:
    """The states of the packages concerned, "" if not installed; without those of others."""
    states = {name: there.get(name, "") for name in wanted}
    return database.own(states, work.history.seen_states, work.first)


def _when_free(work: Workplace, step: Step, argv: tuple[str, ...]) -> Finished:
    """Run one command of a package manager, and once more if somebody else held the package database."""
    done = work.command(step, argv)
    if done.code != 0 and locks.holder(work) and not locks.wait_until_free(work):
        done = work.command(step, argv)
    return done


def _find_named(step: Step, there: Iterable[str]) -> list[str]:
    """The packages ("NAME.ARCH") that the step names, with or without a version."""
    names = ((name, name.rpartition(".")[0]) for name in there)
    return [name for name, bare in names if any(f"{word}-".startswith(f"{bare}-") for word in step.packages)]


def _make_whole(work: Workplace, step: Step, wanted: database.Snapshot) -> None:
    """Restore the files of packages that a killed rpm was about to remove or replace: its database still has them.

    Raises GpustackError if the repository no longer has them.
    """
    torn = [one for one in database.rpm_files(wanted) if not _is_whole(work, one)]
    if not torn:
        return
    done = work.command(step, database.again(work.plan.host.os.family or "", torn))
    left = [one.spelled for one in torn if not _is_whole(work, one)]
    if left:
        msg = f"files of packages are missing or of another version: {', '.join(left)}"
        raise GpustackError(
            msg, code="packages-changed", where=step.title, hint=done.error or done.out.strip()[-_TOLD:]
        )


def _is_whole(work: Workplace, one: database.RpmPackage) -> bool:
    try:
        work.query(database.rpm_is_whole(one.spelled))
    except GpustackError:
        return False
    return True


def repair(work: Workplace, step: Step) -> None:
    """Complete what a killed package manager began, so that the database is usable."""
    if not database.broken(work.tool, work.snapshot()):
        return
    for argv in database.repairs(work.tool):
        _when_free(work, step, argv)
    # A half-unpacked package is unpacked completely first: only then are its files known, and removable.
    if database.broken(work.tool, work.snapshot()):
        for argv in commands_of(action for action in actions_of(step) if _is_of_packages(action)):
            _when_free(work, step, argv)


def _is_of_packages(action: AnyAction) -> bool:
    return is_of_packages(action.argv) if isinstance(action, Words) else isinstance(action, PackageAction)
