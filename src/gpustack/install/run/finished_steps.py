"""Which steps are done: by the journal, if the host still agrees."""

from __future__ import annotations

import os

from gpustack.install.run.actions import content_of
from gpustack.install.run.executor import Workplace
from gpustack.install.run.touched_paths import changes_packages
from gpustack.install.supply.cache import has_sum
from gpustack.model.steps import Artifact, FileWrite, Step
from gpustack.plan.managers.database import Snapshot


def done_steps(work: Workplace) -> set[str]:
    """The ids of the steps that are done."""
    ended = {name for name, step in work.history.steps.items() if step.state in {"done", "skipped"}}
    there = work.snapshot() if any(changes_packages(step) and step.id in ended for step in work.plan.steps) else {}
    done: set[str] = set()
    # Backwards: a download may be deleted once everything that needed it is done.
    for step in reversed(work.plan.steps):
        if step.id in ended and _agrees(work, step, there=there, done=done):
            done.add(step.id)
    return done


def _agrees(work: Workplace, step: Step, *, there: Snapshot, done: set[str]) -> bool:
    if changes_packages(step):
        # As the last step that changed them left them.
        expected = work.history.packages or {}
        if any(there.get(name, "") != expected.get(name, "") for name in work.history.steps[step.id].changed):
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


def _has_content(work: Workplace, file: FileWrite) -> bool:
    place = work.target.place(file.path)
    try:
        return not place.is_symlink() and place.read_bytes() == content_of(file).encode()
    except OSError:
        return False


def _is_there(work: Workplace, artifact: Artifact) -> bool:
    """Whether the file is as it was left: its checksum is computed only if size or time have changed."""
    if work.watch.is_as_left(artifact.path):
        return True
    return bool(artifact.sha256) and has_sum(work.target.place(artifact.path), artifact.sha256)


def _is_used_up(work: Workplace, step: Step, done: set[str]) -> bool:
    users = [one.id for one in work.plan.steps if step.id in one.depends_on]
    return bool(users) and done.issuperset(users)
