"""The entry points: install a plan, go on with a run, take a run back. They return an exit code of the contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpustack.errors import GpustackError, UsageError
from gpustack.install import mounts
from gpustack.install.journal.records import Origin, OriginNoted, Outcome, PolicySet, RunBegun, RunFinished
from gpustack.install.options import Options, Setting
from gpustack.install.root import Target
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
    Lock,
    Run,
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
from gpustack.plan.commands import spelled
from gpustack.system.run import LocalRunner
from gpustack.system.signals import Interrupts

DONE = 0
PAUSED = 5
AFTERWARDS = "`gpustack install --resume` resumes the run, `gpustack install --rollback` undoes it"


def install(plan: Plan, setting: Setting) -> int:
    """Carry ``plan`` out. 0 when all is done, 5 when it stopped for a reboot or a step by hand.

    A run of the same plan that was begun before is gone on with. Raises GpustackError with what, where, why and what
    next when a step failed, and before the first change when something stands in the way.
    """
    target = _target(setting.options)
    folder = state_folder(target)
    with _alone(folder, setting):
        note_tree(target)
        run = _same_plan(folder, plan) or new_run(folder, plan)
        return _go(run, plan, target, setting)


def resume(setting: Setting) -> int:
    """Go on with the run that was begun last. Otherwise as ``install``."""
    target = _target(setting.options)
    folder = state_folder(target)
    with _alone(folder, setting):
        run = unfinished(folder)
        return _go(run, run.plan(), target, setting)


def rollback(setting: Setting) -> int:
    """Undo the last run that was not undone yet. Raises GpustackError with all that could not be undone."""
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
    """Give up the last run that was not undone: nothing is changed, and nothing goes on with it or undoes it."""
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
    """Whether a run of this very plan was begun here and not taken back: the host may have moved on since the plan."""
    return _same_plan(state_folder(_target(options)), plan) is not None


def begun(options: Options) -> tuple[Path | None, Origin]:
    """Where the run that ``resume`` goes on with was begun (None: this machine), and where it has its files from.

    Without a root it is the last run of this machine, be it in a tree. Raises UsageError where there is none.
    """
    tree = last_tree() if options.root is None else None
    if tree is not None:
        with suppress(UsageError):
            return tree, unfinished(state_folder(Target(tree))).history().origin
    return options.root, unfinished(state_folder(_target(options))).history().origin


def _target(options: Options) -> Target:
    if options.root is None:
        return Target()
    root = options.root.resolve()
    if not root.is_dir():
        msg = f"{options.root} is not a folder"
        raise UsageError(
            msg, code="not-a-folder", where="--root", hint="--root requires the root folder of a file system tree"
        )
    return Target() if str(root) == "/" else Target(root)


def _same_plan(folder: Path, plan: Plan) -> Run | None:
    run = open_run(folder)
    if run is None:
        return None
    demand_no_rollback(run, run.history())
    return run if run.plan().digest == plan.digest else None


@contextmanager
def _alone(folder: Path, setting: Setting) -> Iterator[None]:
    lock = Lock(folder)
    lock.take(setting.options.wait, setting.report.say)
    try:
        yield
    finally:
        lock.give()


@contextmanager
def _work(run: Run, plan: Plan, target: Target, setting: Setting) -> Iterator[Workplace]:
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


def _go(run: Run, plan: Plan, target: Target, setting: Setting) -> int:
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
    """Before the first download: a run that is killed in it goes on from the same mirror."""
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
            raise _told(error, step, number, total) from error
        work.report.done()


def _again(work: Workplace, step: Step) -> Outcome:
    """What a killed package manager left half-way is mended as a part of the step, so that it is recorded with it."""
    if changes_packages(step):
        repair(work, step)
    return act(work, step)


def _put_in_order(work: Workplace, step: Step) -> None:
    """What a former attempt changed is put back, so that the step begins as it did the first time.

    dpkg goes on with what was cut off. rpm does not: a package whose script was killed counts as installed, one that
    was being removed has no files any more; so what it did is taken back.
    """
    former = work.history.steps[step.id]
    if changes_packages(step):
        is_broken = work.tool == "rpm" and former.was_cut
    else:
        is_broken = former.state in {"failed", "interrupted", "undoing", "undo-failed"}
    troubles = undo(work, step) if is_broken else []
    if troubles:
        raise troubles[0]


def _told(error: GpustackError, step: Step, number: int, total: int) -> GpustackError:
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
        done = LocalRunner().run(spelled(Reboot())[0], timeout=60.0)
        if done.code != 0:
            reboot.take_away()
            msg = f"the reboot was refused: {done.error or done.err.strip()}"
            raise GpustackError(msg, code="reboot-refused", hint="reboot by hand, then `gpustack install --resume`")
    else:
        reboot.take_away_from(work.target)
        work.report.say(pause.hint)
    return PAUSED
