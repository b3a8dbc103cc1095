"""Hostile names: strings that some reader takes for something else, in every string field of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from gpustack.model.plan import Plan
from gpustack.model.steps import Step
from gpustack.plan.commands import commands_of, packages_of
from gpustack.plan.former import actions_of, undo_actions_of

HOSTILE = (
    "plain",
    "it's",
    "a b  c ",
    " -rf /",
    "--help",
    "-",
    "#x",
    "# comment",
    "$(touch x)",
    "`id` ${HOME} $HOME \\$HOME",
    '"double" \\" \\\\',
    "a\nb\r\nc\n",
    "\n",
    "back\\",
    "back\\\nslash",
    "{{ 7 * 7 }}",
    "{% for x in y %}{# c #}",
    "!unsafe x",
    "a: b, [c] {d}: *e &f",
    "- item",
    "yes",
    "null",
    "0644",
    "1e3",
    "2026-11-21",
    "%TAG ! x",
    "<<EOF",
    "escape=`",
    "; reboot; '",
    "'; Remove-Item -Recurse C:\\; '",
    "\u2018left\u2019 \u201cdouble\u201d \u2013Force",
    "[link](https://x) <b>bold</b> | cell | ```",
    "1. item",
    "\t\x01\x1b\x7f\x85\u2028\ufeff",
    "\u00d2 na\u00efve \u65e5\u672c \U0001f642",
    "x " * 300,
    "y" * 300,
    "/a/b" * 60,
)
"""Strings that some reader of shell, YAML, Dockerfiles, PowerShell or Markdown takes for something else."""

texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1),
    st.text(alphabet="\"'\\`${}#%!&*|<>:;,-[]()=~^ \n\ta1", min_size=1),
)
"""No NUL: neither an argument of a program nor a file's name can hold one."""

Place = tuple[str | int, ...]


def places(plan: Plan) -> list[Place]:
    """The place of every string in a plan, keys of its maps left out."""
    return list(_places(msgspec.to_builtins(plan), ()))


def _places(value: object, place: Place) -> Iterator[Place]:
    if isinstance(value, str):
        yield place
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*place, key))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _places(inner, (*place, number))


def shape(place: Place) -> tuple[str, ...]:
    """A place without its numbers: the field."""
    return tuple(word for word in place if isinstance(word, str))


def planted(plan: Plan, where: list[Place], text: str) -> Plan | None:
    """The plan with ``text`` at these places; None where the document's own types refuse it."""
    document: Any = msgspec.to_builtins(plan)
    document = msgspec.json.decode(msgspec.json.encode(document))
    for place in where:
        inner = document
        for word in place[:-1]:
            inner = inner[word]
        inner[place[-1]] = text
    for _, number, field, *_rest in (place for place in where if place[0] == "steps"):
        if field in {"commands", "undo", "packages"}:
            # Words that are not those of its actions are those of a plan without them.
            document["steps"][number].pop("actions", None)
            document["steps"][number].pop("undo_actions", None)
    try:
        plan = msgspec.convert(document, Plan)
    except msgspec.ValidationError:
        return None
    return replace(plan, steps=tuple(map(_derived, plan.steps)))


def _derived(step: Step) -> Step:
    """The step with the commands that its actions come to."""
    if step.actions is UNSET:
        return step
    actions = actions_of(step)
    undo = commands_of(undo_actions_of(step))
    return replace(step, commands=commands_of(actions), packages=packages_of(actions), undo=undo)
