"""The command line: parse options, call a stage, print its document. The only place that prints or exits.

Commands live in modules of their own, imported when they are called for; ``--help`` imports them all.
"""

from __future__ import annotations

import importlib
from typing import Any

import typer

from gpustack import __version__

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
    "matrix": "gpustack.cli.matrix",
    "schema": "gpustack.cli.schema",
}
"""Every command and the module that defines it, in the order of ``--help``."""


def main(arguments: list[str]) -> int:
    """Run one command line; the exit code of the contract."""
    application = build(arguments)
    try:
        code = application(arguments, prog_name="gpustack", standalone_mode=False)
    except _WRONG_USAGE as error:
        return _tell_usage(error, arguments)
    return code if isinstance(code, int) else 0


_WRONG_USAGE: Any = typer.BadParameter.__mro__[2]
"""The parser's base of wrong usage; typer exports no name for it."""


def _tell_usage(error: Any, arguments: list[str]) -> int:
    """Wrong usage in the form of every other error, and its exit code."""
    context = getattr(error, "ctx", None)
    where = f"gpustack {arguments[0]}" if arguments[:1] and arguments[0] in COMMANDS else "gpustack"
    if context is not None and type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(context.get_help(), err=True)
    else:
        message = " ".join(error.format_message().split()).removesuffix(".")
        from gpustack.cli.frame import shortened, visible

        typer.echo(shortened(f"error: {visible(message[:1].lower() + message[1:])}"), err=True)
        typer.echo(f"hint: `{where} --help` tells what it takes", err=True)
    return int(error.exit_code)


def build(arguments: list[str] | None = None) -> typer.Typer:
    """The application: with one command where the arguments begin with its name, with all otherwise."""
    application = typer.Typer(
        name="gpustack",
        help="Plan, install and verify NVIDIA GPU software stacks.",
        epilog="Example: gpustack plan cuda cudnn --os ubuntu24.04 --gpu L4",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    application.callback()(_everything)
    only = arguments[0] if arguments else ""
    for name in [only] if only in COMMANDS else COMMANDS:
        importlib.import_module(COMMANDS[name]).register(application)
    return application


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"gpustack {__version__}")
        raise typer.Exit


def _everything(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Plan, install and verify NVIDIA GPU software stacks.

    Documents go to standard output, everything else to standard error.
    """
