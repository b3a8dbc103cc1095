"""Refusing another host, and verifying the stack, in the shell: for scripts, user-data and playbooks."""

from __future__ import annotations

import re
import shlex

from gpustack.model.plan import Plan
from gpustack.model.steps import Step
from gpustack.render.basic_checks import NOTHING, UNPROVEN, Check, basic_checks, verified_by
from gpustack.render.commands import command_line
from gpustack.render.shell_library import helpers, program, spoken
from gpustack.render.target import target_of


def demand(plan: Plan) -> str:
    """The line that stops on a host that the plan is not for."""
    return command_line(("demand_host", *target_of(plan))) + "\n"


def verification_script(plan: Plan, step: Step) -> str:
    """A script that verifies the stack, by gpustack or by what can be checked without it."""
    run = [f"exec {shlex.join(argv)}" for argv in step.commands]
    lines = verification(plan, verified_by(step), run)
    return _alone("Written by gpustack: verifies the stack", "dry_run=no\nfailed=0\n", "\n".join(lines))


def host_script(plan: Plan) -> str:
    """A script that exits with 4 on a host that the plan is not for."""
    return _alone("Written by gpustack: refuses a host that the plan is not for", "", demand(plan))


def _alone(title: str, values: str, body: str) -> str:
    """A script of its own, with the functions that it calls, without their comments: user-data has a limit."""
    called = [re.sub(r"(?m)^#.*\n", "", text) for text in helpers([body])]
    return "\n".join([f"#!/bin/sh\n# {title}\nset -u\n{values}", *called, body.rstrip("\n"), ""])


def verification(plan: Plan, components: tuple[str, ...], run: list[str]) -> list[str]:
    """The lines that verify the stack: gpustack if it is there, else basic checks, which say what they do not prove."""
    checks = basic_checks(plan, components)
    lines = [_check(plan, one) for one in checks]
    lines.append(f"end_checks {spoken(UNPROVEN)}" if checks else f"cannot_check {spoken(NOTHING)}")
    told = f"say {spoken('gpustack is not installed here; basic checks in its place:')}"
    return [
        "if command -v gpustack >/dev/null 2>&1; then",
        *(f"    {line}" for line in run),
        "else",
        *(f"    {line}" for line in [told, *lines]),
        "fi",
    ]


def _check(plan: Plan, one: Check) -> str:
    """A basic check as the call of a function."""
    if one.condition is not None:
        return f"check_part {one.component} {command_line(program(plan, one.condition))}"
    question = ("driver_answers", one.driver) if one.driver else ("compiler_answers", one.compiler)
    return f"check {spoken(one.title)} {command_line(question)}"
