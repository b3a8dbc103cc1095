"""The command line: parse options, call a stage, print its document. The only place that prints or exits.

Commands live in modules of their own, imported when they are called for; ``--help`` imports them all.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpustack.cli.declare import Command

COMMANDS = {
    "detect": "gpustack.cli.detect",
    "check": "gpustack.cli.check",
    "plan": "gpustack.cli.plan",
    "explain": "gpustack.cli.explain",
    "render": "gpustack.cli.render",
    "fetch": "gpustack.cli.fetch",
    "install": "gpustack.cli.install",
    "verify": "gpustack.cli.verify",
    "bench": "gpustack.cli.bench",
    "triton": "gpustack.cli.triton",
    "status": "gpustack.cli.status",
    "fleet detect": "gpustack.cli.fleet_detect",
    "fleet plan": "gpustack.cli.fleet_plan",
    "matrix": "gpustack.cli.matrix",
    "mcp": "gpustack.cli.mcp",
    "schema": "gpustack.cli.schema",
    "fleet apply": "gpustack.cli.fleet_apply",
    "fleet verify": "gpustack.cli.fleet_verify",
    "boot-select": "gpustack.cli.boot_select",
    "fleet report": "gpustack.cli.fleet_report",
}
"""Every command and the module that defines it, in the order of ``--help``; some consist of two words."""


def declared(name: str) -> Command:
    """Return the declared command of that name."""
    found: Command = getattr(import_module(COMMANDS[name]), name.replace(" ", "_").replace("-", "_"))
    return found


def _named(arguments: list[str]) -> str:
    """The name of the command that the line begins with, one word or two; "" for another line."""
    names = (" ".join(arguments[:count]) for count in (1, 2))
    return next((name for name in names if name in COMMANDS), "")


def main(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    elif arguments == ["version"]:
        arguments = ["--version"]
    name = _named(arguments)
    if _COMPLETION in os.environ:
        from gpustack.cli.completion import answer

        code = answer(os.environ, COMMANDS)
        if code is not None:
            return code
    elif name:
        from gpustack.cli.frame import run
        from gpustack.cli.reader import read

        command = declared(name)
        values = read(command, arguments[len(name.split()) :], os.environ)
        if values is not None:
            return run(command, values)
    from gpustack.cli import application

    # Only the named command, if any: importing and declaring the others takes longer than most commands run.
    return application.run(arguments, map(declared, [name] if name else COMMANDS))


_COMPLETION = "_GPUSTACK_COMPLETE"
"""Set by a shell that asks for completions."""
