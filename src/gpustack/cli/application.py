"""The commands as a typer application: help, completion, usage errors, and lines that `reader` cannot read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from gpustack import __version__
from gpustack.cli import frame
from gpustack.cli.declare import GROUPS, REQUIRED, Argument, Command, Parameter, with_values

_CONTEXT = {"help_option_names": ["-h", "--help"]}

Run = Callable[[Command, dict[str, Any]], int]
"""Carries out a command with the value of each of its parameters."""


def run(arguments: list[str], commands: Iterable[Command], run_command: Run = frame.run) -> int:
    """Read one command line, run it, and return its exit code."""
    known = list(commands)
    named = next((one for one in known if arguments[: len(one.name.split())] == one.name.split()), None)
    words = arguments
    if named is not None:
        count = len(named.name.split())
        words = [*arguments[:count], *with_values(named.parameters(), arguments[count:])]
    try:
        code = _build(known, run_command)(words, prog_name="gpustack", standalone_mode=False)
    except _WRONG_USAGE as error:
        return _tell(error, "gpustack" if named is None else f"gpustack {named.name}")
    return code if isinstance(code, int) else 0


_WRONG_USAGE: Any = typer.BadParameter.__mro__[2]
"""The parser's base class of usage errors; typer exports no name for it."""


def _tell(error: Any, where: str) -> int:
    """Print a usage error in the form of every other error, and return its exit code."""
    context = getattr(error, "ctx", None)
    if context is not None and type(error).__name__ == "NoArgsIsHelpError":
        frame.say(context.get_help())
    else:
        message = " ".join(error.format_message().split()).removesuffix(".")
        frame.say(frame.shortened(f"error[usage]: {message[:1].lower() + message[1:]}"))
        frame.say(f"hint: see `{where} --help`")
    return int(error.exit_code)


def _build(commands: list[Command], run_command: Run) -> typer.Typer:
    application = typer.Typer(
        name="gpustack",
        help="Plan, install and verify NVIDIA GPU software stacks.",
        epilog="Example: gpustack plan cuda cudnn --os ubuntu24.04 --gpu L4",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=_CONTEXT,
    )
    application.callback()(_everything)
    groups: dict[str, typer.Typer] = {}
    for command in commands:
        group, _, word = command.name.rpartition(" ")
        if group and group not in groups:
            groups[group] = _group(GROUPS[group])
            application.add_typer(groups[group], name=group)
        groups.get(group, application).command(word, epilog=f"Example: {command.example}", context_settings=_CONTEXT)(
            _called_by_typer(command, run_command)
        )
    return application


def _group(about: str) -> typer.Typer:
    group = typer.Typer(help=about, no_args_is_help=True, rich_markup_mode=None, context_settings=_CONTEXT)
    group.callback()(lambda: None)  # without one, a group of one command would be that command
    return group


def _called_by_typer(command: Command, run_command: Run) -> Callable[..., None]:
    """A function with the signature and the help of the command."""

    def run(**values: Any) -> None:
        raise typer.Exit(run_command(command, values))

    parameters = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=_annotation(one),
            default=inspect.Parameter.empty if one.default is REQUIRED else one.default,
        )
        for one in command.parameters()
    ]
    run.__name__ = command.function.__name__
    run.__doc__ = command.function.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _annotation(parameter: Parameter) -> Any:
    """The type of the parameter as typer spells it."""
    form, annotation = parameter.form, parameter.annotation
    if isinstance(form, Argument):
        return Annotated[annotation.__origin__, typer.Argument(metavar=form.metavar, help=form.help)]
    return Annotated[
        annotation.__origin__,
        typer.Option(
            *form.names,
            metavar=form.metavar,
            help=form.help,
            count=form.count,
            min=form.min,
            envvar=form.envvar,
        ),
    ]


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
