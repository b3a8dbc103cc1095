"""Commands, declared once: a command is a function, and the annotation of each parameter describes its option.

Two readers use these declarations. `gpustack.cli.reader` reads ordinary command lines without importing a parser, whose
import alone costs more than solving a stack. `gpustack.cli.application` hands the same declarations to typer, which
handles every other line, help, completion and usage errors. No table stands between them, so none can be stale.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Annotated, Any

from msgspec import Struct


class Color(str, Enum):
    """When to use colour."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


GROUPS = {"fleet": "Detect, plan, install and verify many hosts: those of an Ansible inventory."}
"""The first word of commands that consist of two words, and what they have in common."""


class Argument(Struct, frozen=True, kw_only=True):
    """A positional parameter; a list takes all remaining words."""

    metavar: str
    help: str


class Option:
    """A named parameter; a list is a repeatable option.

    ``names`` are all its spellings. ``count`` makes its value the number of times it is given, ``min`` is its least
    number, ``envvar`` an environment variable that supplies it. With ``alone`` the option may have no value and then
    has this one; only one of ``words`` after it is read as its value.
    """

    def __init__(
        self,
        *names: str,
        help: str | None = None,
        metavar: str | None = None,
        count: bool = False,
        min: float | None = None,
        envvar: str | None = None,
        alone: str = "",
        words: Collection[str] = (),
    ) -> None:
        self.names = names
        self.help = help
        self.metavar = metavar
        self.count = count
        self.min = min
        self.envvar = envvar
        self.alone = alone
        self.words = words


REQUIRED: Any = ...
"""The default of a required parameter."""


class Parameter(Struct, frozen=True, kw_only=True):
    """One parameter of a command as a reader needs it.

    ``annotation`` is its full type, ``kind`` the type of a single value.
    """

    name: str
    annotation: Any
    kind: type
    is_list: bool
    form: Argument | Option
    default: Any


# Options name themselves everywhere: some releases of typer derive a missing name from the metavar.
COMMON: dict[str, tuple[Any, Any]] = {
    "verbose": (
        Annotated[int, Option("-v", "--verbose", count=True, help="Increase verbosity (-vv shows tracebacks).")],
        0,
    ),
    "quiet": (Annotated[bool, Option("-q", "--quiet", help="Suppress warnings and progress output.")], False),
    "color": (
        Annotated[Color, Option("--color", help="When to use colour (NO_COLOR and FORCE_COLOR are honoured).")],
        Color.AUTO,
    ),
    "matrices": (
        Annotated[
            Path | None,
            Option("--matrices", metavar="DIR", help="Directory of additional facts that override the built-in ones."),
        ],
        None,
    ),
    "max_facts_age": (
        Annotated[
            str | None,
            Option("--max-facts-age", metavar="AGE", help="Exit with 8 if the facts are older: 30d, 4w, 12h, or none."),
        ],
        None,
    ),
    "templates": (
        Annotated[
            Path | None,
            Option("--templates", metavar="DIR", help="Directory of templates that replace the built-in ones."),
        ],
        None,
    ),
}
"""The options of every command: type and default by name."""


class Command(Struct, frozen=True, kw_only=True):
    """A function that returns an exit code, and how it is called.

    ``takes`` are groups of options that several commands share: argument name and type. Their values reach the function
    as the one argument ``options``. ``fault_code`` is the exit code of an internal error where 1 already has a meaning.
    """

    name: str
    example: str
    function: Callable[..., int]
    takes: Mapping[str, Any]
    fault_code: int

    def parameters(self) -> list[Parameter]:
        """All parameters of the command, in the order of its help."""
        function: Any = self.function  # its code is not part of the type of a callable
        code, defaults = function.__code__, function.__defaults__ or ()
        names = code.co_varnames[: code.co_argcount]
        own = dict(zip(names, (*[REQUIRED] * (len(names) - len(defaults)), *defaults), strict=True))
        if self.takes:
            del own["options"]
        return [
            *(_parameter(name, function.__annotations__[name], default) for name, default in own.items()),
            *(_parameter(name, annotation, None) for name, annotation in self.takes.items()),
            *(_parameter(name, annotation, default) for name, (annotation, default) in COMMON.items()),
        ]


def command(
    name: str,
    *,
    example: str,
    takes: Mapping[str, Any] = MappingProxyType({}),
    fault_code: int = 1,
) -> Callable[[Callable[..., int]], Command]:
    """Turn a function that returns an exit code into a command: see `Command`.

    Modules of commands do not import ``annotations`` from ``__future__``: annotations are read as they are.
    """
    return lambda function: Command(name=name, example=example, function=function, takes=takes, fault_code=fault_code)


def with_values(parameters: Sequence[Parameter], words: Sequence[str]) -> list[str]:
    """Return ``words`` with the value filled in for each option that has none ("--upgrade" is "--upgrade=all")."""
    alone = {
        name: one.form
        for one in parameters
        if isinstance(one.form, Option) and one.form.alone
        for name in one.form.names
    }
    found: list[str] = []
    for place, word in enumerate(words):
        form = alone.get(word)
        is_value_next = form is not None and words[place + 1 : place + 2] and words[place + 1] in form.words
        found.append(word if form is None or is_value_next or "--" in words[:place] else f"{word}={form.alone}")
    return found


def _parameter(name: str, annotation: Any, default: Any) -> Parameter:
    kind = annotation.__origin__
    if isinstance(kind, UnionType):  # an optional parameter
        kind = kind.__args__[0]
    is_list = getattr(kind, "__origin__", None) is list
    return Parameter(
        name=name,
        annotation=annotation,
        kind=kind.__args__[0] if is_list else kind,
        is_list=is_list,
        form=annotation.__metadata__[0],
        default=default,
    )
