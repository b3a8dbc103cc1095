"""A plan as Markdown, for a review or a ticket."""

from __future__ import annotations

from gpustack.model.plan import Plan
from gpustack.model.steps import Step
from gpustack.render.commands import command_line, is_manual, one_line


def render(plan: Plan) -> str:
    """Headings, a table of the stack, and a section for each step."""
    host = plan.host
    system, arch = _text(host.os.name or host.os.spelled), _text(host.arch or "an unknown architecture")
    lines = [f"# Plan for {system} on {arch}", ""]
    lines += [f"Plan `{plan.digest}`, facts `{plan.facts[:12]}`.", "", "## Stack", ""]
    lines += ["| component | version | method | state | reason |", "|---|---|---|---|---|"]
    for name, entry in plan.stack.items():
        method = f"{entry.method}, {entry.flavour}" if entry.flavour else entry.method
        lines.append(f"| {name} | {_text(entry.version)} | {method} | {entry.state} | {_text(entry.reason)} |")
    if plan.warnings:
        lines += ["", "## Warnings", "", *(f"- {_text(text)}" for text in plan.warnings)]
    lines += ["", "## Steps", ""]
    if not plan.steps:
        lines.append("Nothing to do: the host has this stack already.")
    for number, step in enumerate(plan.steps, 1):
        lines += _step(number, step)
    return "\n".join(lines).rstrip("\n") + "\n"


def _step(number: int, step: Step) -> list[str]:
    by_hand = " (by hand)" if is_manual(step) else ""
    lines = [f"### {number}. {_text(step.title)}{by_hand}", "", f"{_text(step.why)}.", ""]
    for artifact in step.artifacts:
        lines += [f"- download <{artifact.url}> to `{artifact.path}`"]
        lines += [f"- sha256 `{artifact.sha256}`"] if artifact.sha256 else []
        lines += [f"- key fingerprint `{artifact.fingerprint}`"] if artifact.fingerprint else []
        lines.append("")
    for file in step.files:
        lines += [f"`{file.path}`:", "", *_fenced("text", file.content.rstrip("\n")), ""]
    if step.commands:
        lines += [*_fenced("sh", "\n".join(command_line(argv) for argv in step.commands)), ""]
    if step.undo:
        lines += ["Taken back by:", "", *_fenced("sh", "\n".join(command_line(argv) for argv in step.undo)), ""]
    if step.sources:
        lines += ["Sources: " + ", ".join(_source(address) for address in step.sources), ""]
    return lines


def _source(address: str) -> str:
    return f"<{address}>" if address.startswith("https://") and " " not in address else _text(address)


def _fenced(language: str, text: str) -> list[str]:
    fence = "```"
    while fence in text:
        fence += "`"
    return [f"{fence}{language}", text, fence]


def _text(text: str) -> str:
    """Plain words: nothing in them may become markup or break a table."""
    escaped = one_line(text)
    for char in "\\`*_[]<>|#":
        escaped = escaped.replace(char, f"\\{char}")
    return escaped
