"""Steps under construction: named by a key, so that others can depend on them; ids come last."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from gpustack.digests import sha256_hex
from gpustack.model.actions import AnyAction, Reboot
from gpustack.model.conditions import NEVER
from gpustack.model.plan import PHASES
from gpustack.model.steps import Artifact, FileWrite, Kind, PackageSource, Step
from gpustack.plan import done
from gpustack.plan.commands import commands_of, packages_of

_NOT_IN_ID = frozenset({"id", "depends_on", "actions", "undo_actions"})
"""What an id does not depend on: the commands of the actions are part of it."""


class Draft(Struct, frozen=True, kw_only=True):
    """A step without an id. ``key`` names it within the plan; ``after`` are the keys of the steps before it.

    A key in ``after`` that no draft of the plan has is ignored: what is installed already needs no step.
    """

    key: str
    step: Step
    after: tuple[str, ...] = ()


def draft(  # noqa: PLR0913 (the fields of a step; all are keywords)
    key: str,
    *,
    component: str,
    kind: Kind,
    title: str,
    why: str,
    phase: str,
    after: Iterable[str] = (),
    artifacts: tuple[Artifact, ...] = (),
    files: tuple[FileWrite, ...] = (),
    actions: tuple[AnyAction, ...] = (),
    undo: tuple[AnyAction, ...] = (),
    undo_note: str = "",
    done_when: str = NEVER,
    needs_root: bool = True,
    sources: tuple[str, ...] = (),
    repository: PackageSource | UnsetType = UNSET,
) -> Draft:
    """A draft with these fields. One that only writes files is done when the files have their content."""
    commands = commands_of(actions)
    if done_when == NEVER and files and not (commands or artifacts):
        done_when = done.files(files)
    step = Step(
        id="",
        component=component,
        kind=kind,
        title=title,
        why=why,
        commands=commands,
        files=files,
        artifacts=artifacts,
        packages=packages_of(actions),
        needs_root=needs_root,
        reboot_after=any(isinstance(action, Reboot) for action in actions),
        undo=commands_of(undo),
        undo_note=undo_note,
        done_when=done_when,
        phase=phase,
        sources=sources,
        repository=repository,
        actions=actions or UNSET,
        undo_actions=undo or UNSET,
    )
    return Draft(key=key, after=tuple(after), step=step)


def assemble(drafts: Iterable[Draft]) -> tuple[Step, ...]:
    """The steps in the order of the phases, each key once, with ids and ``depends_on``.

    Of drafts with one key the first is kept, and waits for what any of them waits for.

    Raises ValueError if a step would come before one that it depends on: a fault of the planner, never of the user.
    """
    unique: dict[str, Draft] = {}
    for one in drafts:
        first = unique.setdefault(one.key, one)
        if first is not one:
            unique[one.key] = replace(first, after=tuple(dict.fromkeys((*first.after, *one.after))))
    ordered = _in_order(sorted(unique.values(), key=lambda one: PHASES.index(one.step.phase)), unique)
    ids: dict[str, str] = {}
    seen: set[str] = set()
    steps = []
    for one in ordered:
        late = [key for key in one.after if key in unique and key not in ids]
        if late:
            msg = f"step {one.key!r} comes before {late[0]!r}, which it needs"
            raise ValueError(msg)
        step_id = _free_id(step_id_of(one.key, one.step), seen)
        depends_on = tuple(dict.fromkeys(ids[key] for key in one.after if key in ids))
        steps.append(replace(one.step, id=step_id, depends_on=depends_on))
        ids[one.key] = step_id
    return tuple(steps)


def _in_order(drafts: list[Draft], unique: dict[str, Draft]) -> list[Draft]:
    """The drafts after those of their own phase that they depend on, otherwise in the given order."""
    ordered: dict[str, Draft] = {}

    def place(one: Draft, above: frozenset[str]) -> None:
        for key in one.after:
            needed = unique.get(key)
            if needed is not None and key not in ordered and key not in above and needed.step.phase == one.step.phase:
                place(needed, above | {one.key})
        ordered.setdefault(one.key, one)

    for one in drafts:
        place(one, frozenset({one.key}))
    return list(ordered.values())


def step_id_of(prefix: str, step: Step) -> str:
    """The id of a step: a readable prefix and the first 12 digits of the sha256 of its content."""
    content = {name: value for name, value in msgspec.to_builtins(step).items() if name not in _NOT_IN_ID}
    return f"{kebab(prefix)}-{sha256_of(content)[:12]}"


def kebab(text: str) -> str:
    """Return ``text`` in lower case with dashes between its words."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "step"


def canonical(value: object) -> bytes:
    """The canonical JSON of a value: sorted keys, no white space."""
    return msgspec.json.encode(value, order="sorted")


def sha256_of(value: object) -> str:
    """The sha256 (hexadecimal) of the canonical JSON of a value."""
    return sha256_hex(canonical(value))


def _free_id(wanted: str, seen: set[str]) -> str:
    free, number = wanted, 2
    while free in seen:
        free, number = f"{wanted}-{number}", number + 1
    seen.add(free)
    return free
