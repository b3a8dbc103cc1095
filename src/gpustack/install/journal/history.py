"""What has happened in a run so far: the records of its journal folded into one state. Nothing else reads them."""

from __future__ import annotations

from typing import Literal

from gpustack.install.journal.records import (
    CommandBegun,
    Entry,
    Origin,
    OriginNoted,
    PolicySet,
    Record,
    RollbackBegun,
    RolledBack,
    RunBegun,
    RunFinished,
    StepBegun,
    StepEnded,
    UndoBegun,
    UndoFailed,
    Undone,
)
from gpustack.plan.managers import database
from gpustack.plan.managers.database import Snapshot

State = Literal["begun", "done", "failed", "interrupted", "paused", "skipped", "undoing", "undo-failed", "undone"]
Rollback = Literal["none", "begun", "done"]

ABSENT = Entry()


class StepHistory:
    """One step. ``before`` are the packages ahead of its first attempt, ``changed`` those that any attempt changed.

    ``was_cut``: an attempt was interrupted; ``asked_in``: the boot in which it first asked for a reboot; both since it
    was last undone.
    """

    def __init__(self) -> None:
        self.state: State = "begun"
        self.before: Snapshot | None = None
        self.changed: set[str] = set()
        self.was_cut = False
        self.asked_in = ""
        self._attempt: Snapshot = {}

    def begin(self, first: Snapshot, difference: Snapshot | None) -> None:
        self.state = "begun"
        if difference is not None:
            self._attempt = difference
            if self.before is None:
                self.before = database.applied(first, difference)

    def end(self, record: StepEnded) -> None:
        self.state = record.outcome
        self.was_cut = self.was_cut or record.outcome == "interrupted"
        if record.outcome == "paused" and not self.asked_in:
            self.asked_in = record.boot
        if record.packages is not None:
            self.changed |= database.difference(self._attempt, record.packages).keys()


class History:
    """The state of a run.

    ``steps`` are in the order of their beginning. ``base`` holds every place ever seen, in the state that a rollback
    restores, ``now`` its known state at this record, ``owner`` the step that changed it first and is not undone.
    ``found`` are places that others changed before the rollback, ``touched`` those that any step ever changed.
    ``brought`` names the listings of folders. ``command`` may still run.
    """

    def __init__(self) -> None:
        self.count = 0
        self.origin = Origin()
        self.first: Snapshot | None = None
        self.packages: Snapshot | None = None
        self.seen_states: dict[str, set[str]] = {}
        self.brought_by: dict[str, str] = {}
        self.steps: dict[str, StepHistory] = {}
        self.base: dict[str, Entry] = {}
        self.now: dict[str, Entry] = {}
        self.owner: dict[str, str] = {}
        self.touched: set[str] = set()
        self.found: dict[str, Entry] = {}
        self.brought: dict[str, str] = {}
        self.command: CommandBegun | None = None
        self.rollback: Rollback = "none"
        self.is_finished = False
        self.has_policy = False

    @property
    def is_begun(self) -> bool:
        """Whether the tree may have changed: there is something to roll back."""
        return bool(self.steps) or self.has_policy

    @property
    def is_over(self) -> bool:
        """Whether nothing of the run remains to be resumed or rolled back."""
        return self.rollback == "done"

    def open_step(self) -> str:
        """The step that has begun but not ended, "" if none."""
        return next((name for name, step in self.steps.items() if step.state == "begun"), "")

    def begun(self) -> list[str]:
        """The steps that may have left something, in the order of their beginning."""
        return [name for name, step in self.steps.items() if step.state != "undone"]

    def is_being_undone(self) -> bool:
        """Whether an undo was interrupted: the tree may be inconsistent."""
        return any(step.state == "undoing" for step in self.steps.values())

    def owned_by(self, step: str) -> list[str]:
        """The places that a step changed first."""
        return [path for path, owner in self.owner.items() if owner == step]

    def wanted(self, path: str) -> Entry:
        """What a rollback leaves at a place: what somebody put there since, or its state before the run."""
        return self.found.get(path) or self.base.get(path, ABSENT)

    def known(self, path: str) -> Entry:
        """The known state of a place; what nobody has seen did not exist."""
        return self.now.get(path, ABSENT)

    def fold(self, record: Record) -> None:  # noqa: C901, PLR0912 (a branch for each kind of record, nothing else)
        """Apply one record."""
        self.count += 1
        if not isinstance(record, CommandBegun | PolicySet | OriginNoted):
            self.command = None
        match record:
            case OriginNoted(origin=origin):
                self.origin = origin
            case RunBegun(packages=there):
                self.first = there
            case PolicySet():
                self.has_policy = True
            case StepBegun():
                self._begin(record)
            case CommandBegun():
                self.command = record
            case StepEnded():
                self._end(record)
            case RunFinished():
                self.is_finished = True
            case RollbackBegun(found=found):
                self.rollback = "begun"
                self.is_finished = False
                self._find(found)
            case UndoBegun(step=step, found=found):
                self._step(step).state = "undoing"
                self._find(found)
            case UndoFailed(step=step, changed=changed):
                self._step(step).state = "undo-failed"
                self._change(step, changed)
            case Undone(step=step, changed=changed):
                self._undo(step, changed)
            case RolledBack():
                self.rollback = "done"
                self.is_finished = False

    def _step(self, name: str) -> StepHistory:
        return self.steps.setdefault(name, StepHistory())

    def _begin(self, record: StepBegun) -> None:
        self.is_finished = False
        self.rollback = "none"
        self.base.update(record.before)
        self.now.update(record.before)
        for path in record.before:
            self.found.pop(path, None)
        former = self.steps.get(record.step)
        if former is not None and former.state == "undone":
            del self.steps[record.step]
        self._step(record.step).begin(self.first or {}, record.packages)
        self._see(record.packages or {})

    def _end(self, record: StepEnded) -> None:
        self._step(record.step).end(record)
        self._change(record.step, record.changed)
        self.brought.update(record.brought)
        if record.packages is not None:
            self.packages = database.applied(self.first or {}, record.packages)
            self._see(record.packages)
            for name in (name for name, state in record.packages.items() if state):
                self.brought_by.setdefault(name, record.step)

    def _see(self, states: Snapshot) -> None:
        for name, state in states.items():
            self.seen_states.setdefault(name, set()).add(state)

    def _find(self, found: dict[str, Entry]) -> None:
        self.found.update(found)
        self.now.update(found)

    def _change(self, step: str, changed: dict[str, Entry]) -> None:
        for path, entry in changed.items():
            # What nobody had seen before did not exist.
            self.base.setdefault(path, ABSENT)
            self.owner.setdefault(path, step)
            self.now[path] = entry
        self.touched.update(changed)

    def _undo(self, step: str, changed: dict[str, Entry]) -> None:
        self._step(step).state = "undone"
        for path in self.owned_by(step):
            del self.owner[path]
            self.now[path] = self.wanted(path)
        self.now.update((path, entry) for path, entry in changed.items() if path in self.owner)
