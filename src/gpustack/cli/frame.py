"""What every command shares: the common options, how errors are told, how documents are written."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from gpustack.errors import GpustackError

if TYPE_CHECKING:
    from gpustack.matrix.index import Matrix


class Color(str, Enum):
    """When to colour."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Settings(Struct, frozen=True, kw_only=True):
    """The common options of one run."""

    verbose: int = 0
    is_quiet: bool = False
    color: Color = Color.AUTO
    matrices: Path | None = None


_SETTINGS: ContextVar[Settings] = ContextVar("settings", default=Settings())  # noqa: B039 (frozen)

# Options name themselves everywhere: some releases of typer derive the name of an unnamed one from its metavar.
_COMMON: dict[str, tuple[Any, Any]] = {
    "verbose": (Annotated[int, typer.Option("-v", "--verbose", count=True, help="Say more; twice: tracebacks.")], 0),
    "quiet": (Annotated[bool, typer.Option("-q", "--quiet", help="Warnings and progress are not shown.")], False),
    "color": (Annotated[Color, typer.Option("--color", help="When to use colour (NO_COLOR is honoured).")], Color.AUTO),
    "matrices": (
        Annotated[
            Path | None,
            typer.Option("--matrices", metavar="DIR", help="Facts of one's own, laid over the built-in ones."),
        ],
        None,
    ),
}


def settings() -> Settings:
    """The common options of this run."""
    return _SETTINGS.get()


def command(
    application: typer.Typer,
    name: str,
    *,
    example: str,
    takes: Mapping[str, Any] = MappingProxyType({}),
    fault_code: int = 1,
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Register a function that returns an exit code as a command, with the common options added.

    ``takes`` are options that several commands share whole, each an argument's name and its type: what was given of
    them reaches the function as the one argument ``options``. ``fault_code`` is the exit code of a fault of ours,
    where 1 already has a meaning.
    """

    def register(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def run(**arguments: Any) -> None:
            common = {key: arguments.pop(key) for key in _COMMON}
            _SETTINGS.set(
                Settings(
                    verbose=common["verbose"],
                    is_quiet=common["quiet"],
                    color=common["color"],
                    matrices=common["matrices"],
                )
            )
            if takes:
                arguments["options"] = {key: arguments.pop(key) for key in takes}
            raise typer.Exit(_guarded(function, arguments, fault_code))

        # Modules of commands leave `from __future__ import annotations` out: evaluating a hundred strings here costs
        # more than solving a stack.
        signature = inspect.signature(function)
        added = [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
            for key, (kind, default) in [*((key, (kind, None)) for key, kind in takes.items()), *_COMMON.items()]
        ]
        parameters = [
            p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for p in signature.parameters.values()
            if p.name != "options" or not takes
        ]
        run.__signature__ = inspect.Signature([*parameters, *added])  # type: ignore[attr-defined]  # typer reads it
        run.__annotations__ = {p.name: p.annotation for p in [*parameters, *added]}
        del run.__wrapped__
        application.command(name, epilog=f"Example: {example}", context_settings=_CONTEXT)(run)
        return function

    return register


_CONTEXT = {"help_option_names": ["-h", "--help"]}


def _guarded(function: Callable[..., int], arguments: dict[str, Any], fault_code: int) -> int:
    try:
        return function(**arguments)
    except GpustackError as error:
        _tell(error)
        return error.exit_code
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        return 130
    except BrokenPipeError:
        # Whoever read the document has seen enough; leave without a word.
        _abandon_stdout()
        return 0
    except RecursionError:
        _traceback()
        typer.echo("error: the input is nested too deeply", err=True)
        return 2
    except Exception as error:  # noqa: BLE001 (a fault of ours is told like any other)
        _traceback()
        typer.echo(shortened(f"error: internal fault: {type(error).__name__}: {visible(str(error))}"), err=True)
        typer.echo(
            "hint: the same with -v -v shows where; report it with what `gpustack detect --record DIR` saves", err=True
        )
        return fault_code


def _tell(error: GpustackError) -> None:
    """What is wrong, where, why, and the next thing to try."""
    _traceback()
    where = f"{visible(error.where)}: ".replace("\n", "\\n") if error.where else ""
    for line in f"error: {where}{visible(error.message)}".splitlines():
        typer.echo(shortened(line), err=True)
    for line in visible(error.hint).splitlines():
        typer.echo(shortened(f"hint: {line}"), err=True)


def shortened(line: str) -> str:
    """``line``, cut where it repeats more of a value than anybody reads."""
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


_LONGEST_LINE = 1500


def visible(text: str) -> str:
    """``text`` with every character that a terminal would act on, line breaks aside, spelled out."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def _traceback() -> None:
    if settings().verbose >= 2:
        traceback.print_exc()


def warn(text: str) -> None:
    """A warning to standard error, unless quiet."""
    if not settings().is_quiet:
        typer.echo(f"warning: {text}", err=True)


def document(text: str) -> None:
    """A document to standard output, alone and whole. Raises GpustackError where it cannot be written."""
    if sys.stdout is None:
        msg = "standard output is closed"
        raise GpustackError(msg, hint="the document goes there: redirect it to a file")
    try:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as exc:
        _abandon_stdout()
        msg = f"standard output cannot be written: {exc.strerror or exc}"
        raise GpustackError(msg, hint="redirect it to a place with room") from exc


def _abandon_stdout() -> None:
    """Let what is left in the buffer go nowhere, or Python would fail on it once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def wants_color() -> bool:
    """Whether standard output may be coloured."""
    color = settings().color
    if color is Color.AUTO:
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return color is Color.ALWAYS


def matrix(overlay: Path | None = None) -> Matrix:
    """The facts, with the user's own laid over them: those of the command line, else ``overlay``."""
    from gpustack.matrix.index import load_matrix

    return load_matrix(settings().matrices or overlay)


def to_json(value: object) -> str:
    """A document of ours as JSON, indented for people and diffs."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
