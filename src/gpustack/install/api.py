"""The entry points: install a plan, resume a run, roll a run back. They return exit codes of the contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpustack.errors import GpustackError, UsageError
from gpustack.install import mounts
from gpustack.install.journal.records import Origin, OriginNoted, Outcome, PolicySet, RunBegun, RunFinished
from gpustack.install.options import Options, Setting
from gpustack.install.root import InstallRoot
from gpustack.install.run import reboot
from gpustack.install.run.actions import act
from gpustack.install.run.executor import (
    PausedError,
    StepFailedError,
    StoppedError,
    Workplace,
    carry_out,
    settle,
)
from gpustack.install.run.finished_steps import done_steps
from gpustack.install.run.preflight import demand_ready
from gpustack.install.run.rollback import roll_back
from gpustack.install.run.state import (
    Run,
    RunLock,
    demand_no_rollback,
    last_tree,
    new_run,
    note_tree,
    open_run,
    state_folder,
    to_abandon,
    to_roll_back,
    unfinished,
)
from gpustack.install.run.touched_paths import changes_packages
from gpustack.install.run.undo import repair, undo
from gpustack.model.actions import Reboot
from gpustack.model.plan import Plan
from gpustack.model.steps import Step
from gpustack.plan.commands import spell
from gpustack.system.run import LocalRunner
from gpustack.system.signals import Interrupts

DONE = 0
PAUSED = 5
AFTERWARDS = "`gpustack install --resume` resumes the run, `gpustack install --rollback` undoes it"


def install(plan: Plan, setting: Setting) -> int:
    """Carry out ``plan``. 0 when everything is done, 5 when it stopped for a reboot or a step by hand.

    Resumes an earlier run of the same plan. Raises GpustackError with what, where, why and what next if a step failed,
    or, before the first change, if there is an obstacle.
    """
    target = _target(setting.options)
    folder = state_folder(target)
    with _alone(folder, setting):
        note_tree(target)
        run = _same_plan(folder, plan) or new_run(folder, plan)
        return _go(run, plan, target, setting)


def resume(setting: Setting) -> int:
    """Resume the last run. Otherwise like ``install``."""
    target = _target(setting.options)
    folder = state_folder(target)
    with _alone(folder, setting):
        run = unfinished(folder)
        return _go(run, run.plan(), target, setting)


def rollback(setting: Setting) -> int:
    """Undo the last run that is not undone yet. Raises GpustackError with everything that could not be undone."""
    target = _target(setting.options)
    folder = state_folder(target)
    with _alone(folder, setting):
        run = to_roll_back(folder)
        with _work(run, run.plan(), target, setting) as work:
            settle(work)
            reboot.take_away_from(target)
            _forbid_services(work)
            roll_back(work)
    return DONE


def abandon(setting: Setting) -> int:
    """Give up the last run that is not undone: nothing changes, and nothing resumes or undoes it."""
    target = _target(setting.options)
    folder = state_folder(target)
    with _alone(folder, setting):
        run = to_abandon(folder)
        run.abandon()
        reboot.take_away_from(target)
        mounts.allow_services(target)
    setting.report.say(f"abandoned: the run {run.name}; its journal and backups stay in {run.folder}")
    return DONE


def is_begun(options: Options, plan: Plan) -> bool:
    """Whether a run of this plan has begun here and is not rolled back: the host may have changed since."""
    return _same_plan(state_folder(_target(options)), plan) is not None


def begun(options: Options) -> tuple[Path | None, Origin]:
    """Where the run that ``resume`` continues was begun (None: this machine), and the origin of its files.

    Without a root it is the last run of this machine, which may be in a tree. Raises UsageError without one.
    """
    tree = last_tree() if options.root is None else None
    if tree is not None:
        with suppress(UsageError):
            return tree, unfinished(state_folder(InstallRoot(tree))).history().origin
    return options.root, unfinished(state_folder(_target(options))).history().origin


def _target(options: Options) -> InstallRoot:
    if options.root is None:
        return InstallRoot()
    root = options.root.resolve()
    if not root.is_dir():
        msg = f"{options.root} is not a folder"
        raise UsageError(
            msg, code="not-a-folder", where="--root", hint="--root requires the root folder of a file system tree"
        )
    return InstallRoot() if str(root) == "/" else InstallRoot(root)


def _same_plan(folder: Path, plan: Plan) -> Run | None:
    run = open_run(folder)
    if run is None:
        return None
    demand_no_rollback(run, run.history())
    return run if run.plan().digest == plan.digest else None


@contextmanager
def _alone(folder: Path, setting: Setting) -> Iterator[None]:
    lock = RunLock(folder)
    lock.take(setting.options.wait, setting.report.say)
    try:
        yield
    finally:
        lock.give()


@contextmanager
def _work(run: Run, plan: Plan, target: InstallRoot, setting: Setting) -> Iterator[Workplace]:
    interrupts = Interrupts()
    interrupts.catch()
    try:
        mounts.enter(target)
        work = Workplace(run, plan, target, setting, interrupts)
        work.journal.open()
        try:
            yield work
        finally:
            mounts.allow_services(target)
            work.journal.close()
    finally:
        interrupts.release()


def _go(run: Run, plan: Plan, target: InstallRoot, setting: Setting) -> int:
    with _work(run, plan, target, setting) as work:
        _note_origin(work, setting.origin)
        settle(work)
        done = done_steps(work)
        missing = [step for step in plan.steps if step.id not in done]
        if missing:
            work.journal.demand_room()
            demand_ready(work, missing)
            work.files.fetch(artifact for step in missing for artifact in step.artifacts)
            if work.history.first is None:
                work.journal.append(RunBegun(packages=work.first))
        try:
            _forbid_services(work)
            _steps(work, done)
        except PausedError as pause:
            return _paused(work, pause)
        except StoppedError:
            raise
        except GpustackError:
            reboot.take_away_from(target)
            raise
        _finish(work, is_new=bool(missing))
    return DONE


def _forbid_services(work: Workplace) -> None:
    if mounts.needs_policy(work.target):
        work.journal.append(PolicySet())
        mounts.forbid_services(work.target)


def _note_origin(work: Workplace, given: Origin) -> None:
    """Before the first download: a run that is killed there resumes from the same mirror."""
    origin = given.or_else(work.history.origin)
    if origin != work.history.origin:
        work.journal.append(OriginNoted(origin=origin))


def _finish(work: Workplace, *, is_new: bool) -> None:
    if is_new or not work.history.is_finished:
        work.journal.append(RunFinished())
    reboot.take_away_from(work.target)
    work.report.say("done" if is_new else "nothing to do: all steps are already complete")


def _steps(work: Workplace, done: set[str]) -> None:
    total = len(work.plan.steps)
    begun = set(work.history.begun())
    for number, step in enumerate(work.plan.steps, 1):
        if step.id in done:
            continue
        work.check_interrupts()
        work.report.step(number, total, step.title)
        is_again = step.id in begun
        if is_again:
            _put_in_order(work, step)
        try:
            carry_out(work, step, _again if is_again else act)
        except (PausedError, StoppedError):
            raise
        except GpustackError as error:
            raise _describe_failure(error, step, number, total) from error
        work.report.done()


def _again(work: Workplace, step: Step) -> Outcome:
    """Repair what a killed package manager left half-way, as a part of the step, so that it is recorded with it."""
    if changes_packages(step):
        repair(work, step)
    return act(work, step)


def _put_in_order(work: Workplace, step: Step) -> None:
    """Revert what a former attempt changed, so that the step begins as it did the first time.

    dpkg completes what was interrupted. rpm does not: a package whose script was killed counts as installed, and one
    that was being removed has lost its files; so the attempt is reverted.
    """
    former = work.history.steps[step.id]
    if changes_packages(step):
        is_broken = work.tool == "rpm" and former.was_cut
    else:
        is_broken = former.state in {"failed", "interrupted", "undoing", "undo-failed"}
    troubles = undo(work, step) if is_broken else []
    if troubles:
        raise troubles[0]


def _describe_failure(error: GpustackError, step: Step, number: int, total: int) -> GpustackError:
    tail = getattr(error, "tail", "").strip()
    where = "" if not error.where or error.where == step.title else f"{error.where}: "
    text = f"step {number} of {total} failed: {step.title}\n{where}{error.message}"
    if tail:
        text += "\n" + "\n".join(f"    {line}" for line in tail.splitlines()[-12:])
    return StepFailedError(text, code=error.code, hint=f"{error.hint}\n{AFTERWARDS}" if error.hint else AFTERWARDS)


def _paused(work: Workplace, pause: PausedError) -> int:
    work.report.say(pause.message)
    if pause.hint == reboot.RESTART:
        reboot.arrange(work.run.folder.parent.parent)
        work.report.say(pause.hint)
        done = LocalRunner().run(spell(Reboot())[0], timeout=60.0)
        if done.code != 0:
            reboot.take_away()
            msg = f"the reboot was refused: {done.error or done.err.strip()}"
            raise GpustackError(msg, code="reboot-refused", hint="reboot by hand, then `gpustack install --resume`")
    else:
        reboot.take_away_from(work.target)
        work.report.say(pause.hint)
    return PAUSED
