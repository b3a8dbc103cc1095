"""A PowerShell script for Windows plans: one function per step, every value a literal, rollback by each step's undo.

The script is pure ASCII: Windows PowerShell 5.1 reads a file without a BOM in the machine's code page, where a
byte of a foreign character may become a quote. Other characters are assembled from their codes.
"""

from __future__ import annotations

import textwrap

from gpustack.errors import UsageError
from gpustack.model.actions import AnyAction
from gpustack.model.conditions import Condition, conditions
from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, Step
from gpustack.plan.commands import spell
from gpustack.plan.former import actions_of, undo_actions_of
from gpustack.plan.managers.windows import COMMANDS, STATE
from gpustack.render.basic_checks import NOTHING, UNPROVEN, Check, basic_checks, verified_by
from gpustack.render.commands import changes, is_manual
from gpustack.render.target import target_of
from gpustack.resources import template
from gpustack.visible import one_line

_HELD_IN = 4
"""The indentation of a function's body, in columns."""


def literal(text: str) -> str:
    """A PowerShell expression that is exactly ``text``: single-quoted, with character codes for what is not ASCII."""
    if text.isascii() and text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    parts: list[str] = []
    plain = ""
    for unit in _units(text):
        if 0x20 <= unit <= 0x7E:
            plain += "''" if unit == 0x27 else chr(unit)
            continue
        if plain or not parts:
            parts.append(f"'{plain}'")
            plain = ""
        parts.append(f"[char]0x{unit:04x}")
    if plain or not parts:
        parts.append(f"'{plain}'")
    return parts[0] if len(parts) == 1 else f"({' + '.join(parts)})"


def command(argv: tuple[str, ...]) -> str:
    """One command of a Windows plan. Raises UsageError for parameters that the command does not have."""
    name, *words = argv
    parameters = COMMANDS.get(name)
    if parameters is None:
        program = f"Invoke-Program -Program {literal(name)}"
        return f"{program} -Arguments {', '.join(literal(word) for word in words)}" if words else program
    parts, rest = [name], iter(words)
    for word in rest:
        if word not in parameters:
            raise _unknown(name, word)
        parts.append(word)
        if parameters[word]:
            value = next(rest, None)
            if value is None:
                raise _unknown(name, word)
            parts.append(literal(value))
    return " ".join(parts)


def render(plan: Plan) -> str:
    """The plan as a script; ``-DryRun`` shows what it would do, ``-Rollback`` undoes its steps."""
    state = f"$StateFolder = {literal(STATE)}\n"
    blocks = ["\n".join(_title(plan)), _frame("options.ps1"), _frame("host.ps1"), _host(plan), state]
    blocks.append(_frame("functions.ps1"))
    if any(verified_by(step) for step in plan.steps):
        blocks.append(_frame("checks.ps1"))
    if any(one.own_path for step in plan.steps for one in step.artifacts):
        blocks.append(_frame("own_file.ps1"))
    numbered = [(f"{number:02}", step) for number, step in enumerate(plan.steps, 1)]
    blocks += [_function(plan, number, step) for number, step in numbered]
    undone = [(number, step) for number, step in reversed(numbered) if step.undo]
    blocks += [_undo(number, step) for number, step in undone]
    blocks.append(_main(numbered, undone))
    return "\n".join(blocks)


def _frame(name: str) -> str:
    """The head of every script, for Windows PowerShell 5.1 and PowerShell 7."""
    return template(f"powershell/{name}")


def _units(text: str) -> list[int]:
    """The UTF-16 units of a text: the values of PowerShell's [char]."""
    raw = text.encode("utf-16-be", "surrogatepass")
    return [raw[place] << 8 | raw[place + 1] for place in range(0, len(raw), 2)]


def _unknown(name: str, word: str) -> UsageError:
    msg = f"{name} has no parameter {word!r} as the plan uses it"
    return UsageError(msg, code="not-renderable", where="plan", hint="make a new plan with `gpustack plan --out FILE`")


def _title(plan: Plan) -> list[str]:
    host = plan.host
    lines = ["#requires -Version 5.1"]
    if any(step.needs_root for step in plan.steps):
        lines.append("#requires -RunAsAdministrator")
    lines += _comment(f"{host.os.called}, {host.arch or 'unknown architecture'}: plan {plan.digest}")
    for name, entry in plan.stack.items():
        lines += _comment(f"{entry.state} {name} {entry.version} ({entry.method})")
    for text in plan.warnings:
        lines += _comment(f"warning: {text}")
    return lines


def _host(plan: Plan) -> str:
    target = target_of(plan)
    kind = "Windows Server" if target.id == "windows-server" else "Windows"
    system = f"{kind} {target.version}" if target.version else ""
    words = (("System", system), ("Architecture", target.arch), ("Name", target.name))
    return f"Assert-StackHost {' '.join(f'-{name} {literal(text)}' for name, text in words)}\n"


def _is_waited_for(plan: Plan, step: Step) -> bool:
    """Whether other steps depend on this one; the verification only reads."""
    return any(step.id in other.depends_on for other in plan.steps if other.phase != "verification" and changes(other))


def _function(plan: Plan, number: str, step: Step) -> str:
    stops = _is_waited_for(plan, step)
    body = _comment(f"{step.title}: {step.why}")
    test = _guard(step)
    if test:
        done = literal(f"--- {one_line(step.title)}: done already")
        body += [f"if ({test}) {{", f"    Write-Host {done}", "    return", "}"]
    body.append(f"Write-Host {literal('--- ' + one_line(step.title))}")
    if is_manual(step) or step.kind == "note" or step.reboot_after:
        body += _by_hand(step, stops=stops or step.reboot_after)
    else:
        body += [_action(_download(artifact)) for artifact in step.artifacts]
        body += [
            _action(f"Write-StackFile -LiteralPath {literal(file.path)} -Content {literal(file.content)}")
            for file in step.files
        ]
        components = verified_by(step)
        for action in actions_of(step):
            lines = _run(action)
            body += _verification(plan, components, lines) if components else lines
    return _block(f"Invoke-Step{number}", body)


def _undo(number: str, step: Step) -> str:
    title = one_line(step.title)
    body = []
    if {one.kind for one in conditions(step.done_when)} == {"path"}:
        nothing = literal(f"--- nothing to roll back: {title}")
        body += [f"if (-not ({_guard(step)})) {{", f"    Write-Host {nothing}", "    return", "}"]
    body.append(f"Write-Host {literal('--- roll back: ' + title)}")
    body += [line for action in undo_actions_of(step) for line in _run(action)]
    return _block(f"Undo-Step{number}", body)


def _guard(step: Step) -> str:
    tests = [_test(one) for one in conditions(step.done_when)]
    if not all(tests):
        return ""
    return tests[0] if len(tests) == 1 else " -and ".join(f"({test})" for test in tests)


def _test(one: Condition) -> str:
    """A condition as an expression; "" for those of systems with other package managers."""
    if one.kind == "path":
        return f"Test-Path -LiteralPath {literal(one.words[0])}"
    if one.kind == "file":
        path, digest = one.words
        return f"Test-Sum -LiteralPath {literal(path)} -Algorithm 'SHA256' -Hash {literal(digest)}"
    return ""


def _download(artifact: Artifact) -> str:
    if artifact.own_path:
        name = artifact.own_path.replace("\\", "/").rpartition("/")[2]
        return (
            f"Copy-OwnFile -Name {literal(name)} -LiteralPath {literal(artifact.path)} -Hash {literal(artifact.sha256)}"
        )
    text = f"Save-StackFile -Uri {literal(artifact.url)} -LiteralPath {literal(artifact.path)}"
    if artifact.sha256:
        text += f" -Hash {literal(artifact.sha256)}"
    return text + (f" -Size {artifact.size}" if artifact.size else "")


def _run(action: AnyAction) -> list[str]:
    return [_action(command(argv)) for argv in spell(action)]


def _verification(plan: Plan, components: tuple[str, ...], run: list[str]) -> list[str]:
    """The lines that verify the stack: gpustack if it is there, else basic checks, which say what they do not prove."""
    checks = [(check.title, _question(check)) for check in basic_checks(plan, components)]
    lines = [f"Invoke-Check -Title {literal(title)} -Test {{ {test} }}" for title, test in checks if test]
    if lines:
        lines.append(f"Complete-Check -Note {literal(UNPROVEN)}")
    else:
        lines += [f"Write-Host {literal('error: ' + NOTHING)}", "if (-not $DryRun) { exit 1 }"]
    return [
        "if (Get-Command -Name 'gpustack' -CommandType Application -ErrorAction SilentlyContinue) {",
        *(f"    {line}" for line in run),
        "} else {",
        "    Write-Host 'gpustack is not installed on this machine; basic checks in its place:'",
        *(f"    {line}" for line in lines),
        "}",
    ]


def _question(check: Check) -> str:
    """A basic check as an expression, "" if Windows has none."""
    if check.condition is not None:
        return _test(check.condition)
    return f"Test-Compiler -Release {literal(check.compiler)}" if check.compiler else ""


def _action(text: str) -> str:
    return f"Invoke-Action {{ {text} }}"


def _by_hand(step: Step, *, stops: bool) -> list[str]:
    label = "for your knowledge: " if step.kind == "note" else "by hand: "
    lines = [f"Write-Host {literal(label + one_line(step.why))}"]
    lines += [f"Write-Host {literal('    ' + one_line(_shown(argv)))}" for argv in step.commands]
    if stops:
        again = "Write-Host 'do this, then start this script again: it continues with the next step'"
        lines += ["if (-not $DryRun) {", f"    {again}", "    exit 5", "}"]
    return lines


def _shown(argv: tuple[str, ...]) -> str:
    """A command as a person types it."""
    name, *words = argv
    return command(argv) if name in COMMANDS else " ".join(["&", literal(name), *(literal(word) for word in words)])


def _main(numbered: list[tuple[str, Step]], undone: list[tuple[str, Step]]) -> str:
    acting = [number for number, step in numbered if changes(step) or is_manual(step) or step.kind == "note"]
    lines = ["if ($Rollback) {", *(f"    Undo-Step{number}" for number, _ in undone)]
    lines += ["    Write-Host 'rolled back'", "    exit 0", "}"]
    return "\n".join([*lines, *(f"Invoke-Step{number}" for number in acting), "Write-Host 'done'", ""])


def _block(name: str, body: list[str]) -> str:
    return "\n".join([f"function {name} {{", *(f"{' ' * _HELD_IN}{line}" for line in body), "}", ""])


def _comment(text: str) -> list[str]:
    plain = one_line(text).encode("ascii", "backslashreplace").decode()
    return textwrap.wrap(
        plain, 110, initial_indent="# ", subsequent_indent="# ", break_long_words=False, break_on_hyphens=False
    )
