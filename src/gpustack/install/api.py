"""The entry points: install a plan, go on with a run, take a run back. They return an exit code of the contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpustack.errors import GpustackError, UsageError
from gpustack.install import mounts, reboot
from gpustack.install.actions import act
from gpustack.install.done import done_steps
from gpustack.install.executor import (
    PausedError,
    StepFailedError,
    StoppedError,
    Workplace,
    carry_out,
    settle,
)
from gpustack.install.journal import Origin, Outcome, Record
from gpustack.install.options import Options, Setting
from gpustack.install.preflight import demand_ready
from gpustack.install.rollback import begun_steps, is_interrupted, repair, step_back, take_back
from gpustack.install.state import (
    Lock,
    Run,
    is_being_taken_back,
    is_taken_back,
    last_tree,
    new_run,
    note_tree,
    origin_of,
    runs,
    state_folder,
    to_take_back,
    unfinished,
)
from gpustack.install.target import Target
from gpustack.install.targets import changes_packages
from gpustack.model.plan import Plan
from gpustack.model.steps import Step
from gpustack.system.run import LocalRunner
from gpustack.system.signals import Interrupts

DONE = 0
PAUSED = 5
AFTERWARDS = "`gpustack install --resume` goes on from here, `gpustack install --rollback` takes back what was done"


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
    """Take the last run back that was not taken back yet. Raises GpustackError with all that could not be undone."""
    target = _target(setting.options)
    folder = state_folder(target)
    with _alone(folder, setting):
        run = to_take_back(folder)
        with _work(run, run.plan(), target, setting) as work:
            settle(work)
            reboot.take_away_from(target)
            mounts.forbid_services(target)
            troubles = take_back(work)
            if not troubles:
                work.journal.append(Record(event="rolled-back", plan=work.plan.digest))
    if troubles:
        texts = [f"{error.where}: {error.message}" if error.where else error.message for error in troubles]
        hints = [error.hint for error in troubles if error.hint]
        msg = "not everything could be taken back:\n" + "\n".join(texts)
        raise GpustackError(msg, hint="\n".join([*hints, "`gpustack install --rollback` tries the rest again"]))
    setting.report.say("taken back: the run left nothing behind")
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
            return tree, origin_of(unfinished(state_folder(Target(tree))).records())
    return options.root, origin_of(unfinished(state_folder(_target(options))).records())


def _target(options: Options) -> Target:
    if options.root is None:
        return Target()
    root = options.root.resolve()
    if not root.is_dir():
        msg = f"{options.root} is not a folder"
        raise UsageError(msg, where="--root", hint="--root takes the root folder of a file system tree")
    return Target() if str(root) == "/" else Target(root)


def _same_plan(folder: Path, plan: Plan) -> Run | None:
    for run in reversed(runs(folder)):
        records = run.records()
        if is_being_taken_back(records):
            msg = f"the run {run.name} is being taken back, which was interrupted"
            raise UsageError(msg, hint="`gpustack install --rollback` goes on with that")
        if not is_taken_back(records):
            return run if run.plan().digest == plan.digest else None
    return None


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
            demand_ready(work, missing)
            work.files.fetch(artifact for step in missing for artifact in step.artifacts)
            if not any(record.event == "run" for record in work.journal.records):
                work.journal.append(Record(event="run", plan=plan.digest, packages=work.first))
        try:
            mounts.forbid_services(target)
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


def _note_origin(work: Workplace, given: Origin) -> None:
    """Before the first download: a run that is killed in it goes on from the same mirror."""
    former = origin_of(work.journal.records)
    origin = given.or_else(former)
    if origin != former:
        work.journal.append(Record(event="origin", plan=work.plan.digest, origin=origin))


def _finish(work: Workplace, *, is_new: bool) -> None:
    if is_new or not any(record.event == "finished" for record in work.journal.records):
        work.journal.append(Record(event="finished", plan=work.plan.digest))
    reboot.take_away_from(work.target)
    work.report.say("done" if is_new else "nothing to do: every step is done, and the host agrees")


def _steps(work: Workplace, done: set[str]) -> None:
    total = len(work.plan.steps)
    begun = set(begun_steps(work))
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
    if changes_packages(step):
        if work.tool == "rpm" and is_interrupted(work, step):
            troubles = step_back(work, step)
            if troubles:
                raise troubles[0]
        return
    last = next((one for one in reversed(work.journal.records) if one.step == step.id and one.event == "end"), None)
    if last is not None and last.outcome in {"failed", "interrupted"}:
        troubles = work.watch.restore(step.id)
        if troubles:
            raise troubles[0]
        work.watch.forget(step.id)
        work.journal.append(Record(event="undone", plan=work.plan.digest, step=step.id))


def _told(error: GpustackError, step: Step, number: int, total: int) -> GpustackError:
    tail = getattr(error, "tail", "").strip()
    where = "" if not error.where or error.where == step.title else f"{error.where}: "
    text = f"step {number} of {total} failed: {step.title}\n{where}{error.message}"
    if tail:
        text += "\n" + "\n".join(f"    {line}" for line in tail.splitlines()[-12:])
    return StepFailedError(text, hint=f"{error.hint}\n{AFTERWARDS}" if error.hint else AFTERWARDS)


def _paused(work: Workplace, pause: PausedError) -> int:
    work.report.say(pause.message)
    if pause.hint == reboot.RESTART:
        reboot.arrange(work.run.folder.parent.parent)
        work.report.say(pause.hint)
        done = LocalRunner().run(("systemctl", "reboot"), timeout=60.0)
        if done.code != 0:
            reboot.take_away()
            msg = f"the reboot was refused: {done.error or done.err.strip()}"
            raise GpustackError(msg, hint="reboot by hand, then `gpustack install --resume`")
    else:
        reboot.take_away_from(work.target)
        work.report.say(pause.hint)
    return PAUSED
