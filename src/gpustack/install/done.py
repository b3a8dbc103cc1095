"""Which steps are done: the journal says so, and the host still agrees."""

from __future__ import annotations

import os

from gpustack.install import packages
from gpustack.install.actions import content_of, has_sum
from gpustack.install.executor import Workplace
from gpustack.install.journal import Record
from gpustack.install.packages import Snapshot
from gpustack.install.targets import changes_packages
from gpustack.model.steps import Artifact, FileWrite, Step


def done_steps(work: Workplace) -> set[str]:
    """The ids of the steps that are done."""
    ended = _ended(work)
    there = work.snapshot() if any(changes_packages(step) and step.id in ended for step in work.plan.steps) else {}
    expected = _expected(work)
    done: set[str] = set()
    # Backwards: what was downloaded may be gone once all that needed it is done.
    for step in reversed(work.plan.steps):
        record = ended.get(step.id)
        if record is not None and _agrees(work, step, there=there, expected=expected, done=done):
            done.add(step.id)
    return done


def _ended(work: Workplace) -> dict[str, Record]:
    ended: dict[str, Record] = {}
    for record in work.journal.records:
        if record.event == "end" and record.outcome in {"done", "skipped"}:
            ended[record.step] = record
        elif record.event in {"start", "undone"}:
            ended.pop(record.step, None)
    return ended


def _expected(work: Workplace) -> Snapshot:
    """The packages as the last step that touched them left them."""
    last = next(
        (one for one in reversed(work.journal.records) if one.event == "end" and one.packages is not None), None
    )
    return packages.applied(work.first, last.packages or {}) if last is not None else {}


def _agrees(work: Workplace, step: Step, *, there: Snapshot, expected: Snapshot, done: set[str]) -> bool:
    if changes_packages(step):
        changed = changed_packages(work, step.id)
        if any(there.get(name, "") != expected.get(name, "") for name in changed):
            return False
    elif not all(
        os.path.lexists(work.target.place(path)) == bool(entry.kind)
        for path, entry in work.watch.left_by(step.id).items()
        if not step.artifacts
    ):
        return False
    return all(_has_content(work, file) for file in step.files) and all(
        _is_there(work, artifact) or _is_used_up(work, step, done) for artifact in step.artifacts
    )


def changed_packages(work: Workplace, step_id: str) -> set[str]:
    """The packages that a step added, changed or removed, over all its attempts."""
    names: set[str] = set()
    before: Snapshot = {}
    for record in work.journal.records:
        if record.step != step_id:
            continue
        if record.event == "start":
            before = record.packages or {}
        elif record.event == "end" and record.packages is not None:
            names |= packages.difference(before, record.packages).keys()
        elif record.event == "undone":
            names = set()
    return names


def _has_content(work: Workplace, file: FileWrite) -> bool:
    place = work.target.place(file.path)
    try:
        return not place.is_symlink() and place.read_bytes() == content_of(file).encode()
    except OSError:
        return False


def _is_there(work: Workplace, artifact: Artifact) -> bool:
    """Whether the file lies there as it was left: its sum is worked out only where size or time have changed."""
    if work.watch.is_as_left(artifact.path):
        return True
    return bool(artifact.sha256) and has_sum(work.target.place(artifact.path), artifact.sha256)


def _is_used_up(work: Workplace, step: Step, done: set[str]) -> bool:
    users = [one.id for one in work.plan.steps if step.id in one.depends_on]
    return bool(users) and done.issuperset(users)
