"""A plan as Markdown: a guide for one host that a person can follow, with references."""

from __future__ import annotations

import re

from gpustack.model.actions import AnyAction
from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, FileWrite, Step
from gpustack.plan.commands import commands_of
from gpustack.plan.former import actions_of, undo_actions_of
from gpustack.render.basic_checks import basic_checks, verified_by
from gpustack.render.commands import command_line, fetch, is_manual, printed
from gpustack.visible import is_visible, one_line, visible

_ORDINARY = re.compile(r"[a-z]+[:,]?")
_PROGRAMS = frozenset({"apt", "dkms", "dnf", "dpkg", "gcc", "gpg", "mokutil", "nouveau", "nova", "nvcc", "pip"})
"""Names that may begin a reason: a capital would make another word of them."""

WIDTH = 80
"""The line length of prose; commands, files and headings keep their length."""

_MARKUP = re.compile(r"[\\`*\[\]<>|#~&!$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_ADDRESS = re.compile(r"https://[A-Za-z0-9._~:/?=%+-]*[A-Za-z0-9/]")
_FIRST = re.compile(r"^(?:[-+=:]|[0-9]+[.)])(?=\s|$|=|-|:)")
_STATES = {"install": "install", "upgrade": "upgrade", "downgrade": "downgrade", "keep": "already installed"}


def render(plan: Plan) -> str:
    """Headings, the stack with its reasons, and a section for each step, in order."""
    host = plan.host
    lines = [f"# {text(f'GPU stack for {host.os.called}')}", "", *_host(plan), "", "## Stack", ""]
    for name, entry in plan.stack.items():
        method = f"{entry.method}, {entry.flavour} kernel modules" if entry.flavour else entry.method
        lines += _item(f"{name} {entry.change} ({method}), {_STATES[entry.state]}: {entry.reason}")
        lines += [f"  {line}" for address in entry.sources for line in _item(address)]
    if not plan.stack:
        lines.append("Nothing was requested.")
    if plan.warnings:
        lines += ["", "## Warnings", ""]
        for warning in plan.warnings:
            lines += _item(warning)
    lines += ["", "## Steps", ""]
    if plan.steps:
        lines += [*_how(plan), ""]
    else:
        lines.append("Nothing to do: the host has this stack already.")
    for number, step in enumerate(plan.steps, 1):
        lines += _step(plan, number, step)
    return visible("\n".join(lines).rstrip("\n")) + "\n"


def text(plain: str) -> str:
    """Plain text: nothing in it may become markup; an address becomes a link to itself."""
    found, place = "", 0
    line = one_line(plain)
    for match in _ADDRESS.finditer(line):
        found += _MARKUP.sub(r"\\\g<0>", line[place : match.start()]) + f"<{match.group()}>"
        place = match.end()
    return found + _MARKUP.sub(r"\\\g<0>", line[place:])


def _sentence(words: str) -> str:
    """The text with a capital, unless it begins with the name of a program, a package or a product."""
    first = words.partition(" ")[0]
    if _ORDINARY.fullmatch(first) and first not in _PROGRAMS:
        return words[0].upper() + words[1:]
    return words


def _host(plan: Plan) -> list[str]:
    host = plan.host
    lines = _item(f"System: {host.os.called} on {host.arch or 'an unknown architecture'}")
    if host.kernel:
        lines += _item(f"Kernel: {host.kernel}")
    if host.gpus:
        lines += _item(f"GPUs: {', '.join(gpu.called for gpu in host.gpus)}")
    return [*lines, f"- Plan: {_code(plan.digest)}", f"- Facts: {_code(plan.facts)}"]


def _how(plan: Plan) -> list[str]:
    if plan.host.os.family == "windows":
        words = "Run the commands in PowerShell as administrator, one step after the other."
    else:
        words = "Run the commands in a root shell, one step after the other; stop where one fails."
    more = " The commands that undo a step follow it." if any(step.undo for step in plan.steps) else ""
    return _prose(words + more)


def _step(plan: Plan, number: int, step: Step) -> list[str]:
    by_hand = " (by hand)" if is_manual(step) else ""
    lines = [f"### {number}. {text(step.title)}{by_hand}", ""]
    if step.why:
        why = one_line(step.why)
        lines += [*_prose(f"{_sentence(why)}."), ""]
    windows = plan.host.os.family == "windows"
    for artifact in step.artifacts:
        lines += _download(artifact, windows=windows)
    for file in step.files:
        lines += _file(file)
    if step.commands:
        lines += _commands(actions_of(step), windows=windows)
        lines += [] if windows else _without_gpustack(plan, step)
    if step.reboot_after:
        lines += [*_prose("Continue with the next step after the reboot."), ""]
    if step.undo:
        lines += ["Undone by:", "", *_commands(undo_actions_of(step), windows=windows)]
    elif step.undo_note:
        lines += [*_prose(f"Not undone: {step.undo_note}."), ""]
    found = _sources(step.sources)
    return [*lines, *found, ""] if found else lines


def _without_gpustack(plan: Plan, step: Step) -> list[str]:
    """What a reader without gpustack types in place of a verification, and what has to appear."""
    checks = basic_checks(plan, verified_by(step))
    asked: dict[str, str] = {}
    for one in checks:
        if one.driver:
            asked["nvidia-smi --query-gpu=name,driver_version --format=csv"] = f"driver {one.driver}"
        if one.compiler:
            asked["nvcc --version"] = f"release {one.compiler}"
    if not asked:
        return []
    shown = " and ".join(asked.values())
    lines = [
        *_prose(f"Without gpustack, these commands show {shown}; they do not prove that anything runs on a GPU:"),
        "",
    ]
    return [*lines, *_fenced("sh", "\n".join(asked)), ""]


def _download(artifact: Artifact, *, windows: bool) -> list[str]:
    if windows:
        from gpustack.render.powershell_plain import download  # noqa: PLC0415 (only plans for Windows show it)

        return [*_fenced("powershell", "\n".join(download(artifact))), ""]
    lines = [command_line(argv) for argv in fetch(artifact)]
    if artifact.sha256:
        sum_line = command_line(("printf", "%s\\n", f"{artifact.sha256}  {artifact.path}"))
        lines.append(f"{sum_line} | sha256sum --check -")
    found = [*_fenced("sh", "\n".join(lines)), ""]
    if artifact.fingerprint:
        found += ["The key in it has the fingerprint", f"{_code(artifact.fingerprint)}.", ""]
    return found


def _file(file: FileWrite) -> list[str]:
    if not is_visible(file.content.replace("\n", "")):
        lines = [
            f"{printed(file.content)} > {command_line((file.path,))}",
            command_line(("chmod", file.mode, "--", file.path)),
        ]
        head = _prose("This writes a file with invisible characters:")
        return [*head, "", *_fenced("sh", "\n".join(lines)), ""]
    return [
        f"Write this, with the mode {_code(file.mode)}, to",
        f"{_code(file.path)}:",
        "",
        *_fenced("text", file.content.removesuffix("\n")),
        "",
    ]


def _commands(actions: tuple[AnyAction, ...], *, windows: bool) -> list[str]:
    if windows:
        from gpustack.render.powershell_plain import plain  # noqa: PLC0415 (only plans for Windows show it)

        return [*_fenced("powershell", "\n".join(line for action in actions for line in plain(action))), ""]
    return [*_fenced("sh", "\n".join(command_line(argv) for argv in commands_of(actions))), ""]


def _sources(addresses: tuple[str, ...]) -> list[str]:
    if not addresses:
        return []
    return ["Sources:", "", *(line for address in addresses for line in _item(address))]


def _item(words: str) -> list[str]:
    first, *rest = _wrapped(words, WIDTH - 2) or [""]
    return [f"- {first}".rstrip(), *(f"  {line}" for line in rest)]


def _prose(words: str) -> list[str]:
    return _wrapped(words, WIDTH)


def _wrapped(words: str, width: int) -> list[str]:
    """Escaped words on lines, none of which begins with what Markdown takes for a list or a heading."""
    lines: list[str] = []
    for word in text(words).split(" "):
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [_FIRST.sub(lambda match: f"{match.group()[:-1]}\\{match.group()[-1]}", line, count=1) for line in lines]


def _code(words: str) -> str:
    """A code span with exactly these words."""
    plain = one_line(words) or " "
    ticks = "`"
    while ticks in plain:
        ticks += "`"
    edge = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{ticks}{edge}{plain}{edge}{ticks}"


def _fenced(language: str, content: str) -> list[str]:
    fence = "```"
    while fence in content:
        fence += "`"
    return [f"{fence}{language}", content, fence]
