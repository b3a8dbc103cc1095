"""How to recognize that a step has nothing left to do: conditions that a machine can test."""

from __future__ import annotations

from typing import NamedTuple

from gpustack.digests import sha256_hex
from gpustack.model.actions import AnyAction, Look, RefreshIndex, Remove, Verify
from gpustack.model.conditions import Condition, conditions
from gpustack.model.steps import Artifact, Step
from gpustack.plan.former import actions_of, undo_actions_of
from gpustack.plan.managers.base import CACHE


class Signs(NamedTuple):
    """A step is done if every condition holds and, with ``marked``, a mark says that it ran."""

    conditions: tuple[Condition, ...]
    marked: bool

    @property
    def any(self) -> bool:
        """Whether there is any sign: a step without one only reads, and runs each time."""
        return bool(self.conditions) or self.marked


def signs(step: Step) -> Signs:
    """The signs of one step. What only the step itself uses, such as a folder in our cache, is not a sign."""
    told = conditions(step.done_when)
    if told:
        # All other signs of the step are in them.
        return Signs(told, marked=False)
    summed = [Condition("file", (one.path, one.sha256)) for one in step.artifacts if _is_known_by_sum(step, one)]
    written = [
        Condition("file", (one.path, sha256_hex(one.content.encode())))
        for one in step.files
        if not one.path.startswith(f"{CACHE}/")
    ]
    marked = any(_changes(action) for action in actions_of(step)) or (bool(step.artifacts) and not summed)
    made = [Condition("path", (path,)) for path in _made_by(step)] if marked else []
    return Signs(tuple(dict.fromkeys((*summed, *written, *made))), marked)


def only_serves(step: Step) -> bool:
    """Whether only later steps use the step, so that it may be skipped if those are done."""
    if step.kind == "refresh-index":
        return True
    paths = [*(one.path for one in step.artifacts), *(one.path for one in step.files)]
    return step.kind == "download" and bool(paths) and all(path.startswith(f"{CACHE}/") for path in paths)


def _is_known_by_sum(step: Step, artifact: Artifact) -> bool:
    in_cache = artifact.path.startswith(f"{CACHE}/")
    return bool(artifact.sha256) and not (in_cache and step.kind != "download")


def _changes(action: AnyAction) -> bool:
    """Whether an action does more than read."""
    return not isinstance(action, Look | Verify | RefreshIndex)


def _made_by(step: Step) -> list[str]:
    """The paths that the step creates: those that its undo removes."""
    removed = [path for action in undo_actions_of(step) if isinstance(action, Remove) for path in action.paths]
    return [path for path in removed if step.kind == "download" or not path.startswith(f"{CACHE}/")]
