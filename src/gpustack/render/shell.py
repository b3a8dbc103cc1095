"""A POSIX shell script: one function per step, everything quoted, with a test before each whether it is done."""

from __future__ import annotations

import re
import shlex

from gpustack.model.conditions import Condition
from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, FileWrite, Step
from gpustack.plan.commands import spell
from gpustack.plan.former import actions_of
from gpustack.render.basic_checks import verified_by
from gpustack.render.commands import changes, command_line, fetch, is_manual, printed, serves_reboot
from gpustack.render.comments import comment, stack
from gpustack.render.shell_library import helpers, program, spoken
from gpustack.render.signs import Signs, only_serves, signs
from gpustack.render.verification import demand, verification
from gpustack.visible import is_visible, one_line

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_HEAD = """\
set -eu
umask 022
LC_ALL=C.UTF-8
export LC_ALL

dry_run=no
case "${1:-}" in
    '') ;;
    --dry-run) dry_run=yes ;;
    *) printf 'usage: %s [--dry-run]\\n' "$0" >&2; exit 2 ;;
esac
"""
_ROOT = """\
if [ "$dry_run" = no ] && [ "$(id -u)" -ne 0 ]; then
    say "error: this script changes the system: run it as root"
    exit 1
fi
"""
_STATE = """\
# Marks of steps whose result cannot be tested.
state={folder}/script-{digest}
title=start
changed=0
failed=0
{reboot}
on_exit() {{
    code=$?
    case "$code" in
        0 | 5 | 130) ;;
        *) say "error: stopped in: $title. Fix the error above and start this script again: it continues there" ;;
    esac
}}
trap on_exit EXIT
trap 'exit 130' INT TERM
"""
_ROOT_FOLDER = "/var/lib/gpustack"
_OWN_FOLDER = '"${XDG_STATE_HOME:-$HOME/.local/state}"/gpustack'
_END = """\
if [ "$changed" -eq 0 ]; then
    say "nothing to change: everything is as planned"
elif [ "$dry_run" = yes ]; then
    say "would change something: $changed of {count} steps"
else
    say "done: $changed of {count} steps changed something"
fi
"""


class _Script:
    """The script of one plan while it is written."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.names = {step.id: f"{number:02}" for number, step in enumerate(plan.steps, 1)}
        self.signs = {step.id: signs(step) if self.acts(step) else Signs((), marked=False) for step in plan.steps}
        self.served = {step.id: [one for one in plan.steps if step.id in one.depends_on] for step in plan.steps}
        self.before_reboot = serves_reboot(plan)

    def acts(self, step: Step) -> bool:
        """Whether the step's own commands run."""
        return changes(step) and not (step.reboot_after or is_manual(step))

    def function(self, step: Step) -> str:
        """The functions that test whether the step is done, and do it."""
        name = self.names[step.id]
        lines = []
        asked = self.question(step)
        if asked:
            lines += [f"done_{name}() {{", *asked, "}"]
        body = [f"begin {spoken(one_line(step.title))}"]
        if asked:
            body.append(f"if done_{name}; then as_planned; return 0; fi")
        body += self.body(step)
        reason = comment(f"{step.title}: {step.why}" if step.why else step.title, width=100)
        return "\n".join([*lines, f"step_{name}() {{", *(f"    {line}" for line in [*reason, *body]), "}", ""])

    def question(self, step: Step) -> list[str]:
        """The lines of the function that tests whether a step has nothing left to do; none if nothing can."""
        found = self.signs[step.id]
        tests = [self.test(one) for one in found.conditions]
        if found.marked:
            tests.insert(0, f"is_marked {self.names[step.id]}")
        after = [f"done_{self.names[one.id]}" for one in self.served[step.id] if self.signs[one.id].any]
        if only_serves(step) and after:
            # Downloads for later steps are not missing if these are done.
            lines = _joined(after)
            return [f"    if {_inline(tests)}; then return 0; fi", *lines] if tests else lines
        return _joined(tests)

    def test(self, one: Condition) -> str:
        """A condition as a command."""
        if one.kind == "succeeds":
            return f"{command_line(one.words)} >/dev/null 2>&1"
        return command_line(program(self.plan, one))

    def body(self, step: Step) -> list[str]:
        """The lines that do the step."""
        if step.reboot_after:
            driver = self.plan.stack.get("driver")
            known = driver is not None and _WORD.fullmatch(driver.version)
            return [f"wait_for_reboot {driver.version}" if driver and known else "wait_for_reboot"]
        if is_manual(step):
            return _by_hand(step)
        lines = []
        if self.signs[step.id].any:
            lines.append("work")
            stale = [self.names[one.id] for one in self.served[step.id] if self.signs[one.id].marked]
            if stale:
                lines.append(" ".join(["again", *stale]))
        if step.id in self.before_reboot:
            lines.append("needs_reboot")
        for artifact in step.artifacts:
            lines += _download(artifact)
        for file in step.files:
            lines += _file(file)
        components = verified_by(step)
        for action in actions_of(step):
            run = [f"run {command_line(argv)}" for argv in spell(action)]
            lines += verification(self.plan, components, run) if components else run
        if self.signs[step.id].marked:
            lines.append(f"mark {self.names[step.id]}")
        return lines

    def text(self) -> str:
        """The whole script."""
        plan = self.plan
        acting = [step for step in plan.steps if changes(step) or is_manual(step) or step.kind == "note"]
        needs_root = any(step.needs_root for step in plan.steps)
        reboots = any(step.reboot_after for step in plan.steps)
        state = _STATE.format(
            folder=_ROOT_FOLDER if needs_root else _OWN_FOLDER,
            digest=re.sub(r"[^0-9a-f]", "", plan.digest)[:12],
            reboot="reboot_ahead=no\n" if reboots else "",
        )
        blocks = [self.function(step) for step in acting]
        blocks.append("\n".join([*(f"step_{self.names[step.id]}" for step in acting), ""]))
        blocks.append(_END.format(count=len(acting)))
        rest = [demand(plan), state, *([_ROOT] if needs_root else []), *blocks]
        return "\n".join([_title(plan), _HEAD, *helpers(rest), *rest])


def render(plan: Plan) -> str:
    """The plan as a script for /bin/sh; ``--dry-run`` shows what it would run."""
    return _Script(plan).text()


def _title(plan: Plan) -> str:
    host = plan.host
    system = one_line(f"{host.os.called}, {host.arch or 'unknown architecture'}")
    lines = ["#!/bin/sh", f"# {system}: plan {one_line(plan.digest)}"]
    lines += stack(plan)
    for text in plan.warnings:
        lines += comment(f"warning: {text}")
    return "\n".join([*lines, ""])


def _joined(tests: list[str]) -> list[str]:
    """Tests that must all hold, one per line."""
    return [f"    {test}{' &&' if number < len(tests) else ''}" for number, test in enumerate(tests, 1)]


def _inline(tests: list[str]) -> str:
    return " && ".join(tests)


def _download(artifact: Artifact) -> list[str]:
    lines = [f"run {command_line(argv)}" for argv in fetch(artifact)]
    if artifact.sha256:
        lines.append(command_line(("check_sum", artifact.path, artifact.sha256)))
    return lines


def _file(file: FileWrite) -> list[str]:
    put = command_line(("put", file.path, file.mode))
    if not is_visible(file.content.replace("\n", "")):
        return [f"{printed(file.content)} | {put}"]
    if not file.content.endswith("\n"):
        return [f"printf %s {shlex.quote(file.content)} | {put}"]
    end = "GPUSTACK_END"
    while end in file.content.split("\n"):
        end += "_"
    return [f"{put} <<'{end}'\n{file.content}{end}"]


def _by_hand(step: Step) -> list[str]:
    lines = [f"say {spoken('by hand: ' + one_line(step.why or step.title))}"]
    return lines + [f"say {spoken('    ' + one_line(command_line(argv)))}" for argv in step.commands]
