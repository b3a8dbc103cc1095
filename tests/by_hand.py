"""Steps that somebody wrote by hand, or the first edition made: they say no more than their words."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from gpustack.model.actions import AnyAction
from gpustack.plan.commands import spell
from gpustack.plan.draft import Draft
from gpustack.plan.draft import draft as typed

Commands = tuple[tuple[str, ...], ...]


def draft(
    key: str,
    *,
    commands: Commands = (),
    undo: Commands = (),
    packages: tuple[str, ...] = (),
    reboot_after: bool = False,
    **fields: Any,
) -> Draft:
    """A draft as `gpustack.plan.draft.draft` makes it, with commands for actions, or with actions."""
    made = typed(key, **fields)
    if "actions" in fields:
        return made
    step = replace(made.step, commands=commands, undo=undo, packages=packages, reboot_after=reboot_after)
    if commands and "done_when" not in fields:
        step = replace(step, done_when="never")
    return replace(made, step=step)


def words(action: AnyAction) -> tuple[str, ...]:
    """The one command of an action."""
    [argv] = spell(action)
    return argv
