"""Carries out one run, step by step: record, look, act, look again, record."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from gpustack.error_ids import ErrorId
from gpustack.errors import GpustackError
from gpustack.install.changes.backups import Backups
from gpustack.install.changes.names import safe
from gpustack.install.changes.watch import Watch
from gpustack.install.journal.file import Journal
from gpustack.install.journal.history import History
from gpustack.install.journal.records import CommandBegun, Outcome, StepBegun, StepEnded
from gpustack.install.options import Setting
from gpustack.install.root import InstallRoot
from gpustack.install.run.state import Run
from gpustack.install.run.touched_paths import changes_packages, places_of
from gpustack.install.supply.fetching import Files
from gpustack.model.plan import Plan
from gpustack.model.steps import Step
from gpustack.plan.managers import database
from gpustack.plan.managers.database import Snapshot
from gpustack.render.commands import command_line
from gpustack.system.jobs import Job, born, follow, still_running
from gpustack.system.run import Finished, LocalRunner
from gpustack.system.signals import Interrupts


class StoppedError(GpustackError):
    """A signal ended the run between two records, or while a command was running."""

    code = "interrupted"

    def __init__(self, number: int, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.exit_code = 128 + number


class PausedError(GpustackError):
    """The run pauses here until somebody does what it says: a reboot, or a step by hand."""

    code = "paused"
    exit_code = 5


class StepFailedError(GpustackError):
    """A step could not be carried out; ``tail`` is the last output of what failed."""

    code = "step-failed"

    def __init__(
        self, message: str, *, code: ErrorId = "step-failed", where: str = "", hint: str = "", tail: str = ""
    ) -> None:
        super().__init__(message, code=code, where=where, hint=hint)
        self.tail = tail


class Workplace:
    """What all actions of the run share."""

    def __init__(self, run: Run, plan: Plan, target: InstallRoot, setting: Setting, interrupts: Interrupts) -> None:
        self.run = run
        self.plan = plan
        self.target = target
        self.options = setting.options
        self.report = setting.report
        self.interrupts = interrupts
        self.files = Files(setting.download, setting.report, self.check_interrupts)
        self.journal = Journal(run.journal, run.reserve)
        self.watch = Watch(target, Backups(run.kept), self.history)
        self.tool = database.tool_of(plan.host.os.family)
        self._first: Snapshot | None = None

    @property
    def history(self) -> History:
        """What has happened in the run so far."""
        return self.journal.history

    def query(self, argv: tuple[str, ...]) -> str:
        """The output of a read-only command. Raises GpustackError if it fails."""
        words = ("chroot", str(self.target.root), *argv) if self.target.root else argv
        done = LocalRunner().run(words, timeout=120.0)
        if done.code != 0:
            why = done.error or (done.err or done.out).strip()[-500:]
            msg = f"`{command_line(argv)}` failed: {why}"
            raise GpustackError(
                msg, code="command-failed", hint="the package database must answer before anything is changed"
            )
        return done.out

    def snapshot(self) -> Snapshot:
        """The packages that are installed now."""
        return database.snapshot(self.tool, self.query)

    @property
    def first(self) -> Snapshot:
        """The packages that were installed when the run began."""
        if self.history.first is not None:
            return self.history.first
        if self._first is None:
            self._first = self.snapshot() if any(changes_packages(step) for step in self.plan.steps) else {}
        return self._first

    def changes_since_first(self) -> Snapshot:
        """The differences of the package database from its state when the run began."""
        return database.difference(self.first, self.snapshot())

    def command(self, step: Step | None, argv: tuple[str, ...], *, limit: float | None = None) -> Finished:
        """Run one command, recorded. Raises StoppedError after a signal."""
        self.check_interrupts()
        job = Job(argv=argv, log=self.run.output, root=self.target.root, limit=limit)
        done = follow(job, _Following(self, step, argv))
        self.check_interrupts()
        return done

    def check_interrupts(self) -> None:
        """Raise StoppedError after a signal."""
        if self.interrupts.number:
            name = signal.Signals(self.interrupts.number).name
            back = "`gpustack install --rollback` completes the rollback"
            ways = "`gpustack install --resume` resumes the run, `gpustack install --rollback` undoes it"
            raise StoppedError(
                self.interrupts.number,
                f"interrupted by {name}",
                hint=back if self.history.rollback == "begun" else ways,
            )


class _Following:
    """Journals the process of a command, and shows its output."""

    def __init__(self, work: Workplace, step: Step | None, argv: tuple[str, ...]) -> None:
        self._work = work
        self._step = step.id if step else ""
        self._argv = argv

    def started(self, pid: int) -> None:
        self._work.journal.append(CommandBegun(step=self._step, argv=self._argv, pid=pid, born=born(pid)))

    def line(self, text: str) -> None:
        self._work.report.line(text)

    def stop(self) -> int:
        return self._work.interrupts.number


Action = Callable[[Workplace, Step], Outcome]


def carry_out(work: Workplace, step: Step, action: Action) -> None:
    """Carry out one step from its first record to its last.

    Raises GpustackError with what failed, and StoppedError after a signal; both after the last record.
    """
    roots = places_of(step)
    touches = changes_packages(step)
    work.journal.demand_room()
    before = work.watch.before(roots)
    there = database.difference(work.first, work.snapshot()) if touches else None
    work.journal.append(StepBegun(step=step.id, before=before, packages=there))
    began = time.monotonic()
    outcome: Outcome = "failed"
    reason, tail = "", ""
    error: GpustackError | None = None
    try:
        outcome = action(work, step)
    except StoppedError as exc:
        outcome, reason, error = "interrupted", exc.message, exc
    except PausedError as exc:
        outcome, reason, error = "paused", exc.message, exc
    except GpustackError as exc:
        reason, error = exc.message, exc
        tail = getattr(exc, "tail", "")
    except OSError as exc:
        reason = safe(f"{exc.strerror or exc}" + (f": {exc.filename}" if exc.filename else ""))
        error = GpustackError(reason, code="step-failed", where=step.title)
    record = StepEnded(
        step=step.id,
        outcome=outcome,
        reason=reason,
        tail=tail[-2000:],
        seconds=round(time.monotonic() - began, 3),
    )
    _end(work, step, record)
    if error is not None:
        raise error


def _end(work: Workplace, step: Step, record: StepEnded) -> None:
    """Record how a step ended, and what it changed."""
    changed = work.watch.after(places_of(step))
    brought = work.watch.brought(places_of(step), changed)
    there = None
    if changes_packages(step):
        # A database left unreadable by a failed step must not hide why the step failed.
        with suppress(GpustackError):
            there = work.changes_since_first()
    work.journal.append(replace(record, changed=changed, brought=brought, packages=there))


def settle(work: Workplace) -> None:
    """Complete the records of a step that a crash interrupted.

    Waits for any command that outlived us: it is still doing what would be started again.
    """
    if work.history.command is not None:
        wait_for(work, work.history.command)
    open_step = work.history.open_step()
    step = next((one for one in work.plan.steps if one.id == open_step), None)
    if step is not None:
        reason = "gpustack ended before the step did"
        _end(work, step, StepEnded(step=step.id, outcome="interrupted", reason=reason))


def wait_for(work: Workplace, command: CommandBegun) -> None:
    """Wait until nothing of a recorded command runs. Raises GpustackError after the time limit."""
    end = time.monotonic() + work.options.wait
    is_told = False
    while command.boot == work.journal.boot and (left := still_running(command.pid, command.born)):
        work.check_interrupts()
        if time.monotonic() > end:
            processes = ", ".join(map(str, left))
            msg = f"`{command_line(command.argv)}` of the interrupted run still runs as process {processes}"
            raise GpustackError(msg, code="command-running", hint="wait for it to finish or stop it, then retry")
        if not is_told:
            work.report.say(f"waiting for `{command_line(command.argv)[:100]}` of the interrupted run")
            is_told = True
        time.sleep(0.1)
