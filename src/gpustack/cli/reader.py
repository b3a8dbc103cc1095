"""Reads ordinary command lines, at a hundredth of the cost of a parser.

It reads what is unambiguous and leaves everything else to `gpustack.cli.application`: help, errors, completion, values
from the environment, unusual spellings. That reads the line again from its beginning.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from gpustack.cli.declare import REQUIRED, Argument, Command, Option, Parameter, with_values


def read(command: Command, words: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any] | None:
    """The value of each parameter of ``command``; None if ``words`` need a parser, right or wrong."""
    try:
        return _values(command.parameters(), words, environment)
    except _Unsure:
        return None


class _Unsure(Exception):  # noqa: N818 (nothing is wrong)
    """Not an ordinary command line."""


def _values(parameters: list[Parameter], words: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    options: dict[str, Parameter] = {}
    for parameter in parameters:
        if isinstance(parameter.form, Option):
            if parameter.form.envvar is not None and parameter.form.envvar in environment:
                raise _Unsure
            options.update(dict.fromkeys(parameter.form.names, parameter))
    found: dict[str, Any] = {}
    places: list[str] = []
    rest = iter(with_values(parameters, words))
    for word in rest:
        if word[:1] != "-" or word == "-":
            places.append(word)
            continue
        name, equals, text = word.partition("=")
        option = options.get(name)
        if option is None or (equals and not name.startswith("--")):  # "-i=x" is -i with the value "=x"
            raise _Unsure
        _note(found, option, text if equals else None, rest)
    _place(found, [one for one in parameters if isinstance(one.form, Argument)], places)
    for parameter in parameters:
        if parameter.name not in found:
            if parameter.default is REQUIRED:
                raise _Unsure
            found[parameter.name] = parameter.default
    return found


def _note(found: dict[str, Any], option: Parameter, text: str | None, rest: Any) -> None:
    """Record one more occurrence of ``option``; its value is ``text`` or, if that is None, the next word."""
    name = option.name
    if option.kind is bool or (isinstance(option.form, Option) and option.form.count):
        if text is not None or (name in found and option.kind is bool):
            raise _Unsure
        found[name] = True if option.kind is bool else found.get(name, 0) + 1
        return
    if text is None:
        text = next(rest, None)
        if text is None or (text[:1] == "-" and text != "-"):
            raise _Unsure
    value = _value(option, text)
    if option.is_list:
        found.setdefault(name, []).append(value)
    elif name in found:
        raise _Unsure
    else:
        found[name] = value


def _place(found: dict[str, Any], arguments: list[Parameter], words: list[str]) -> None:
    """Assign ``words`` to ``arguments``: one each, and all that are left to the last if it takes several."""
    if arguments and arguments[-1].is_list:
        *arguments, last = arguments
        words, rest = words[: len(arguments)], words[len(arguments) :]
        if rest:
            found[last.name] = [_value(last, word) for word in rest]
    if len(words) > len(arguments) or any(one.is_list for one in arguments):
        raise _Unsure
    for argument, word in zip(arguments, words, strict=False):
        found[argument.name] = _value(argument, word)


def _value(parameter: Parameter, text: str) -> Any:
    kind = parameter.kind
    if kind is str:
        return text
    if kind is Path:
        return _path(text)
    if issubclass(kind, Enum):
        for member in kind:
            if member.value == text:
                return member
    elif kind in {int, float} and text.isascii() and text.replace(".", "", kind is float).isdecimal():
        number = kind(text)
        least = parameter.form.min if isinstance(parameter.form, Option) else None
        if least is None or number >= least:
            return number
    raise _Unsure


def _path(text: str) -> Path:
    """A path; if it exists it must be readable."""
    try:
        os.stat(text)  # noqa: PTH116 (of the text as it is: "" is not a path, Path("") is)
        if not os.access(text, os.R_OK):
            raise _Unsure
    except OSError:
        pass
    except ValueError as exc:
        raise _Unsure from exc
    return Path(text)
