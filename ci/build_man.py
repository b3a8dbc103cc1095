"""Write the manual page of gpustack from the declarations of its commands: gpustack(1), in roff."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from enum import Enum

from gpustack import __version__
from gpustack.cli import COMMANDS, declared
from gpustack.cli.declare import COMMON, Argument, Command, Option, Parameter

EXIT_CODES = {
    0: "done; nothing is wrong",
    1: "a step or a check failed",
    2: "wrong usage, or input that cannot be read",
    3: "no compatible stack; the combination is incompatible",
    4: "this host or method is not supported",
    5: "a reboot is required: gpustack install --resume",
    6: "changes are pending; drift was found",
    7: "no verdict: a version or pair that no fact covers",
    8: "the facts are older than --max-facts-age, or an update is not trusted",
    130: "interrupted",
}


def page(date: str) -> str:
    """The whole page; ``date`` is the day in its head."""
    lines = [
        f'.TH GPUSTACK 1 "{date}" "gpustack {__version__}" "User Commands"',
        ".SH NAME",
        "gpustack \\- plan, install and verify NVIDIA GPU software stacks",
        ".SH SYNOPSIS",
        *"\n.br\n".join(f".B gpustack {text(name)}\n{text(synopsis(declared(name)))}" for name in COMMANDS).split("\n"),
        ".SH COMMANDS",
    ]
    for name in COMMANDS:
        lines += described(declared(name))
    lines.append(".SH OPTIONS OF EVERY COMMAND")
    for one in declared("schema").parameters():
        if one.name in COMMON:
            lines += parameter(one)
    lines.append(".SH EXIT STATUS")
    for code, meaning in EXIT_CODES.items():
        lines += [".TP", f".B {code}", text(meaning)]
    return "\n".join([*lines, ""])


def synopsis(command: Command) -> str:
    words = [one.form.metavar for one in command.parameters() if isinstance(one.form, Argument)]
    return " ".join([*words, "[OPTIONS]"])


def described(command: Command) -> Iterator[str]:
    about = inspect.cleandoc(command.function.__doc__ or "").split("\n\n")
    yield f".SS gpustack {text(command.name)}"
    yield text(" ".join(about[0].split()))
    for paragraph in about[1:]:
        yield from (".PP", text(" ".join(paragraph.split())))
    for one in command.parameters():
        if one.name not in COMMON:
            yield from parameter(one)
    yield from (".PP", "Example:", ".RS", ".nf", text(command.example), ".fi", ".RE")


def parameter(one: Parameter) -> Iterator[str]:
    if isinstance(one.form, Argument):
        yield from (".TP", f".I {text(one.form.metavar)}", text(one.form.help))
    else:
        yield from option(one.form, one.kind)


def option(form: Option, kind: type) -> Iterator[str]:
    choices = "|".join(str(member.value) for member in kind) if issubclass(kind, Enum) else "VALUE"
    named = form.metavar or ("" if kind is bool or form.count else choices)
    value = f" \\fI{text(named)}\\fR" if named else ""
    yield from (
        ".TP",
        ", ".join(f"\\fB{text(name)}\\fR" for name in form.names) + value,
        text(form.help or "One of these."),
    )


def text(words: str) -> str:
    """Words as roff shows them unchanged."""
    escaped = words.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return f"\\&{escaped}" if escaped[:1] in {".", "'"} else escaped


if __name__ == "__main__":
    sys.stdout.write(page(sys.argv[1] if len(sys.argv) > 1 else ""))
