"""Takes a run back, the last step first, to what was there before it."""

from __future__ import annotations

from collections.abc import Iterable

from gpustack.errors import GpustackError
from gpustack.install import packages
from gpustack.install.actions import is_left_out
from gpustack.install.done import changed_packages
from gpustack.install.executor import StoppedError, Workplace
from gpustack.install.journal import Record
from gpustack.install.targets import PACKAGE_TOOLS, changes_packages, places_of, program
from gpustack.model.steps import Step
from gpustack.render.commands import command_line

_BY_COPY = PACKAGE_TOOLS | {"rm", "rmdir", "mv", "cp", "ln", "make", "ldconfig", "python3"}
"""Programs of a plan's own undo whose work the kept copies and the package snapshots do better."""

_AT_THE_END = frozenset({"update-initramfs", "dracut"})
"""Programs that work on what all steps together have changed."""


def take_back(work: Workplace) -> list[GpustackError]:
    """Undo all steps that were begun; what could not be taken back."""
    foreign = _foreign(work)
    for path in foreign:
        work.report.say(f"left as it is, because somebody changed it since: {path}")
    steps = {step.id: step for step in work.plan.steps}
    begun = begun_steps(work)
    troubles: list[GpustackError] = []
    later: list[tuple[str, ...]] = []
    for number, step_id in enumerate(reversed(begun), 1):
        step = steps.get(step_id)
        if step is None:
            continue
        work.check_interrupts()
        work.report.step(number, len(begun), f"take back: {step.title}")
        troubles += _undo(work, step, foreign, later)
    troubles += _commands(work, None, dict.fromkeys(later))
    if any(step.commands for step in work.plan.steps):
        _refresh_loader(work)
    return troubles


def begun_steps(work: Workplace) -> list[str]:
    """The ids of the steps that were begun and not taken back, in the order of their first beginning."""
    begun: dict[str, None] = {}
    for record in work.journal.records:
        if record.event == "start":
            begun.setdefault(record.step)
        elif record.event == "undone":
            begun.pop(record.step, None)
    return list(begun)


def _foreign(work: Workplace) -> tuple[str, ...]:
    """What somebody else changed since: looked at once, before the undoing itself changes anything."""
    recorded: Record | None = None
    for record in work.journal.records:
        if record.event == "rollback":
            recorded = record
        elif record.event in {"start", "rolled-back"}:
            recorded = None
    if recorded is None:
        recorded = work.journal.append(Record(event="rollback", plan=work.plan.digest, foreign=work.watch.foreign()))
    return recorded.foreign


def _undo(work: Workplace, step: Step, foreign: tuple[str, ...], later: list[tuple[str, ...]]) -> list[GpustackError]:
    own = [argv for argv in step.undo if program(argv) not in _BY_COPY]
    later += [argv for argv in own if program(argv) in _AT_THE_END]
    troubles = _commands(work, step, [argv for argv in own if program(argv) not in _AT_THE_END])
    return step_back(work, step, foreign, troubles)


def step_back(
    work: Workplace, step: Step, foreign: tuple[str, ...] = (), troubles: Iterable[GpustackError] = ()
) -> list[GpustackError]:
    """Packages and places that a step changed, as they were before it; what could not be taken back, ``troubles`` too.

    The step is recorded as undone where there is no trouble.
    """
    troubles = list(troubles)
    if changes_packages(step):
        _look(work, step)
        try:
            packages_back(work, step)
        except StoppedError:
            raise
        except GpustackError as error:
            troubles.append(error)
        # Removing and installing changes settings too: a package comes back with its own defaults.
        work.watch.after(step.id, places_of(step))
    troubles += work.watch.restore(step.id, spared=foreign)
    if not troubles:
        work.watch.forget(step.id)
        work.journal.append(Record(event="undone", plan=work.plan.digest, step=step.id))
    return troubles


def _look(work: Workplace, step: Step) -> None:
    """Keep what is there before packages are taken back, once: what a killed attempt at it left is none of that."""
    looked = False
    for record in work.journal.records:
        if record.step == step.id and record.event in {"start", "kept", "undone"}:
            looked = record.event == "kept"
    if not looked:
        before = work.watch.before(places_of(step))
        work.journal.append(Record(event="kept", plan=work.plan.digest, step=step.id, before=before))


def _commands(work: Workplace, step: Step | None, commands: Iterable[tuple[str, ...]]) -> list[GpustackError]:
    troubles = []
    for argv in commands:
        if is_left_out(work, argv):
            continue
        done = work.command(step, argv)
        if done.code != 0:
            text = f"`{command_line(argv)}`: {done.error or f'it ended with {done.code}'}"
            troubles.append(GpustackError(text, where=step.title if step else "", hint=done.out.strip()[-300:]))
    return troubles


def packages_back(work: Workplace, step: Step) -> None:
    """Bring the packages that a step changed back to how they were before it. Raises GpustackError where that fails."""
    before = _before(work, step)
    repair(work, step)
    names = changed_packages(work, step.id)
    there = work.snapshot()
    wanted = {name: before.get(name, "") for name in sorted(names) if before.get(name, "") != there.get(name, "")}
    if wanted:
        _move(work, step, wanted, there)
    if work.tool == "rpm" and is_interrupted(work, step):
        _make_whole(
            work, step, {name: before[name] for name in sorted({*names, *_named(step, before)} & before.keys())}
        )


def _move(work: Workplace, step: Step, wanted: packages.Snapshot, there: packages.Snapshot) -> None:
    """From ``there`` to ``wanted``. Raises GpustackError where they are not there afterwards."""
    said: list[str] = []
    for ways in packages.commands_back(work.tool, work.plan.host.os.family or "", wanted, there):
        for argv in ways:
            done = work.command(step, argv)
            if done.code == 0:
                break
            said.append(f"`{command_line(argv)[:200]}`: {done.error or done.out.strip()[-300:]}")
    there = work.snapshot()
    try:
        packages.demand(work.tool, wanted, there)
    except GpustackError as error:
        raise GpustackError(error.message, where=step.title, hint="\n".join([*said, error.hint])) from error


def is_interrupted(work: Workplace, step: Step) -> bool:
    """Whether an attempt at the step was cut off since it was last taken back."""
    found = False
    for record in work.journal.records:
        if record.step == step.id and record.event in {"end", "undone"}:
            found = record.event == "end" and (found or record.outcome == "interrupted")
    return found


def _named(step: Step, there: Iterable[str]) -> list[str]:
    """The packages ("NAME.ARCH") that the step names, with or without a version."""
    names = ((name, name.rpartition(".")[0]) for name in there)
    return [name for name, bare in names if any(f"{word}-".startswith(f"{bare}-") for word in step.packages)]


def _make_whole(work: Workplace, step: Step, wanted: packages.Snapshot) -> None:
    """Bring back the files of packages that a killed rpm was about to remove or replace: its database still has them.

    Raises GpustackError where the repository does not have them any more.
    """
    torn = [one for one in packages.rpm_files(wanted) if not _is_whole(work, one)]
    if not torn:
        return
    done = work.command(step, packages.again(work.plan.host.os.family or "", torn))
    left = [one.spelled for one in torn if not _is_whole(work, one)]
    if left:
        msg = f"files of packages are gone or of another version: {', '.join(left)}"
        raise GpustackError(msg, where=step.title, hint=done.error or done.out.strip()[-300:])


def _is_whole(work: Workplace, one: packages.RpmPackage) -> bool:
    try:
        work.query(("rpm", "--verify", "--nodeps", "--noscripts", "--noconfig", "--nomtime", one.spelled))
    except GpustackError:
        return False
    return True


def _before(work: Workplace, step: Step) -> packages.Snapshot:
    """The packages when the step was first begun, since it was last taken back."""
    found: packages.Snapshot | None = None
    for record in work.journal.records:
        if record.step == step.id and record.event == "undone":
            found = None
        elif record.step == step.id and record.event == "start" and found is None:
            found = packages.applied(work.first, record.packages or {})
    return found or {}


def repair(work: Workplace, step: Step) -> None:
    """End what a killed package manager began, so that the database can be worked with."""
    if not packages.broken(work.tool, work.snapshot()):
        return
    for argv in packages.repairs(work.tool):
        work.command(step, argv)
    # A package that is half unpacked is unpacked whole first: only then its files are known, and can be removed.
    if packages.broken(work.tool, work.snapshot()):
        for argv in step.commands:
            if program(argv) in PACKAGE_TOOLS:
                work.command(step, argv)


def _refresh_loader(work: Workplace) -> None:
    cache = work.target.place("/etc/ld.so.cache")
    if cache.exists():
        work.command(None, ("ldconfig",))
