"""Plain text for people: the stack, then the numbered steps. Readable at 80 columns, without colour."""

from __future__ import annotations

import re

from gpustack.model.plan import Plan
from gpustack.model.steps import Step
from gpustack.render.commands import command_line, is_manual
from gpustack.visible import one_line, visible

WIDTH = 100
"""The columns of a plan in a file or a pipe."""

_NARROW = 40
_MARKS = {"install": "+", "upgrade": "~", "downgrade": "~", "keep": "."}
_PHASES = {
    "preflight": "Before the first step",
    "prerequisites": "Prerequisites",
    "repositories": "Repositories",
    "driver": "Driver",
    "reboot": "Reboot",
    "toolkit": "Toolkit",
    "libraries": "Libraries",
    "applications": "Applications",
    "verification": "Verification",
}


def render(plan: Plan, width: int = WIDTH, *, is_short: bool = False) -> str:
    """The plan as a text of at most ``width`` columns, except where a word or an address is longer.

    The short form has the titles of the steps, without their reasons, files and commands.
    """
    lines = [*_head(plan, width), "", *_stack(plan, width)]
    steps = _steps(plan, width, is_short=is_short)
    lines += ["", *steps] if plan.steps else ["", "Nothing to do: the host has this stack already."]
    if plan.warnings:
        lines += ["", "Warnings"]
        for text in plan.warnings:
            lines += _wrapped(one_line(text), width, first="  ! ", rest="    ")
    lines += ["", _summary(plan)]
    if is_short and plan.steps:
        said = (*_downloads(plan), "`--format table` shows every step with its reason and its commands")
        lines += [line for text in said for line in _wrapped(text, width, first="", rest="  ")]
    return visible("\n".join(line.rstrip() for line in lines)) + "\n"


def _head(plan: Plan, width: int) -> list[str]:
    host = plan.host
    name = host.os.called
    parts = [name, host.arch or "unknown architecture"]
    if host.environment and host.environment != "bare-metal":
        parts.append(host.environment)
    if host.kernel:
        parts.append(f"kernel {host.kernel}")
    gpus: dict[str, int] = {}
    for gpu in host.gpus:
        label = gpu.called
        gpus[label] = gpus.get(label, 0) + 1
    shown = ", ".join(f"{count} x {label}" if count > 1 else label for label, count in gpus.items())
    lines = _wrapped(one_line(f"Host   {', '.join(parts)}"), width, first="", rest="       ")
    if shown:
        lines += _wrapped(one_line(f"GPU    {shown}"), width, first="", rest="       ")
    return lines


def _stack(plan: Plan, width: int) -> list[str]:
    if not plan.stack:
        return ["Stack  (empty)"]
    names = sorted(plan.stack, key=_order)
    longest = max(len(name) for name in names)
    versions = max(len(entry.change) for entry in plan.stack.values())
    methods = max(len(_method(plan, name)) for name in names)
    lines = ["Stack"]
    for name in names:
        entry = plan.stack[name]
        mark = _MARKS[entry.state]
        method = _method(plan, name)
        row = f"  {mark} {name:<{longest}}  {entry.change:<{versions}}  {method:<{methods}}  {entry.state:<9} "
        rest = min(len(row), 60)
        if width - rest < _NARROW:
            # The reason goes below the row, where it has room.
            lines += [row.rstrip(), *_wrapped(one_line(entry.reason), width, first=" " * 6, rest=" " * 6)]
        else:
            lines += _wrapped(one_line(entry.reason), width, first=row, rest=" " * rest)
    return lines


def _method(plan: Plan, name: str) -> str:
    entry = plan.stack[name]
    return f"{entry.method}, {entry.flavour}" if entry.flavour else entry.method


def _order(name: str) -> tuple[int, str]:
    from gpustack.model.facts import COMPONENTS  # noqa: PLC0415 (a table without steps needs none)

    return (COMPONENTS.index(name) if name in COMPONENTS else len(COMPONENTS)), name


def coloured(text: str) -> str:
    """The same text with colours, none of which says anything that a word or a mark does not say."""
    return _TOKENS.sub(lambda match: f"\x1b[{_COLOURS[match[0].strip()]}m{match[0]}\x1b[0m", text)


_COLOURS = {"+": 32, "~": 33, "-": 31, "!": 33, **dict.fromkeys(("Host", "GPU", "Stack", "Steps", "Warnings"), 1)}
_TOKENS = re.compile(
    r"^(?:Host|GPU|Stack|Steps|Warnings)(?= |$)|^  [+~!-](?= )|(?<=^  [ \d]{3}) [+~-](?= )", re.MULTILINE
)
"""Headings, and the marks of components, warnings and steps."""


def _downloads(plan: Plan) -> list[str]:
    """The files that the plan downloads itself; package managers know the size of their packages."""
    files = [artifact for step in plan.steps for artifact in step.artifacts]
    known = [artifact.size for artifact in files if artifact.size]
    if not files:
        return []
    sizes = [f"{sum(known) / 2**20:,.1f} MiB"] if known else []
    if len(files) > len(known):
        sizes.append(f"{len(files) - len(known)} of unknown size")
    return [f"{len(files)} file{'s' if len(files) > 1 else ''} to download: {' and '.join(sizes)}"]


def _steps(plan: Plan, width: int, *, is_short: bool = False) -> list[str]:
    lines = ["Steps"]
    phase = ""
    for number, step in enumerate(plan.steps, 1):
        if step.phase != phase:
            phase = step.phase
            lines += ["", f"  {_PHASES.get(phase, phase)}"]
        lines += _step(number, step, width, is_short=is_short)
    return lines


def _step(number: int, step: Step, width: int, *, is_short: bool) -> list[str]:
    head = f"  {number:>3} {_mark(step)} "
    by_hand = "  (by hand)" if is_manual(step) else ""
    lines = _wrapped(one_line(step.title) + by_hand, width, first=head, rest=" " * len(head))
    if is_short:
        return lines
    indent = " " * (len(head) + 2)
    lines += _wrapped(one_line(step.why), width, first=f"{indent}", rest=indent)
    said = [(">", artifact.url) for artifact in step.artifacts]
    said += [("  sha256", artifact.sha256) for artifact in step.artifacts if artifact.sha256]
    said += [("  fingerprint", artifact.fingerprint) for artifact in step.artifacts if artifact.fingerprint]
    lines += [f"{indent}{mark} {one_line(text)}" for mark, text in said]
    lines += [f"{indent}writes {one_line(file.path)}" for file in step.files]
    for argv in step.commands:
        lines += _command(argv, indent, width)
    return lines


def _command(argv: tuple[str, ...], indent: str, width: int) -> list[str]:
    """One command; a long one continues on further lines, as a shell accepts it."""
    words = [command_line((word,)) for word in argv]
    lines = [f"{indent}$"]
    for word in words:
        if len(lines[-1]) + len(word) + 3 > width and lines[-1].strip() not in {"$", ""}:
            lines[-1] += " \\"
            lines.append(f"{indent}   ")
        lines[-1] += f" {word}"
    return [line.replace("\n", "\\n") for line in lines]


def _mark(step: Step) -> str:
    if step.kind == "note":
        return "."
    if step.kind == "remove-packages":
        return "-"
    if step.kind in {"install-packages", "add-repository", "download", "write-file", "extract", "pip-install", "build"}:
        return "+"
    return "~"


def _summary(plan: Plan) -> str:
    acting = [step for step in plan.steps if step.kind != "note"]
    reboots = sum(step.reboot_after for step in plan.steps)
    manual = sum(is_manual(step) for step in plan.steps)
    parts = [f"{len(acting)} steps"]
    if reboots:
        parts.append(f"{reboots} reboot" + ("s" if reboots > 1 else ""))
    if manual:
        parts.append(f"{manual} by hand")
    return f"{', '.join(parts)}; plan {one_line(plan.digest[:12])}, facts {one_line(plan.facts[:12])}"


def _wrapped(text: str, width: int, *, first: str, rest: str) -> list[str]:
    from textwrap import wrap  # noqa: PLC0415 (compiles expressions; most lines fit)

    return wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    ) or [first]
