"""What a shell offers after TAB, from the declarations and the facts: answered without typer, whose import is longer.

The scripts that ``--install-completion`` writes are typer's; they pass the line in variables of the environment.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from gpustack.cli.declare import Argument, Command, Option, Parameter

if TYPE_CHECKING:
    from gpustack.matrix.index import Matrix

VARIABLE = "_GPUSTACK_COMPLETE"
"""Set by a shell that asks for completions: complete_bash, complete_zsh, complete_fish."""

_SHELLS = ("bash", "zsh", "fish")
_TAKE_COMPONENTS = ("check", "plan", "explain", "install")
_COMPARED = ("==", ">=", "<=", "~=", "!=", ">", "<")


class Offer(str):
    """One word to offer, and what it means."""

    __slots__ = ("about",)
    about: str


def _offer(word: str, about: str = "") -> Offer:
    made = Offer(word)
    made.about = about
    return made


class _Named(Struct, frozen=True):
    """A product, of which only the name is read."""

    name: str

    def names(self) -> tuple[str, ...]:
        """Its name, and as most people write it, without the brand."""
        brand, _, rest = self.name.partition(" ")
        return (self.name, rest) if rest and brand in {"GeForce", "Quadro", "Tesla"} else (self.name,)


def answer(environment: Mapping[str, str], commands: Mapping[str, str]) -> int | None:
    """Print what completes the line in ``environment`` and return the exit code; None for a question of typer's own."""
    shell = environment[VARIABLE].removeprefix("complete_")
    if environment[VARIABLE] != f"complete_{shell}" or shell not in _SHELLS:
        return None
    words, last, cut = _line(shell, environment)
    found = [one for one in offers(words, last, commands) if one.startswith(last)]
    if shell == "fish" and environment.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        return 0 if found else 1
    text = _WRITTEN[shell](found, cut)
    if text:
        os.write(1, f"{text}\n".encode())
    return 0


def _line(shell: str, environment: Mapping[str, str]) -> tuple[list[str], str, int]:
    """The words before the cursor, the one at it, and how much of that bash does not replace."""
    if shell != "bash":
        text = environment.get("_TYPER_COMPLETE_ARGS", "")
        words = _split(text)[1:]
        return (words[:-1], words[-1], 0) if words and not text.endswith(" ") else (words, "", 0)
    words = environment.get("COMP_WORDS", "").split("\n")
    place = environment.get("COMP_CWORD", "")
    words = words[: int(place) + 1] if place.isdecimal() else words
    return _joined([*words[1:], *[""] * (len(words) < 2)])


def _split(text: str) -> list[str]:
    """The words of a line, which may end within quotes."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="")
    lexer.whitespace_split, lexer.commenters = True, ""
    found: list[str] = []
    try:
        found.extend(lexer)
    except ValueError:  # an open quote: what it holds so far is the last word
        found.append(lexer.token)
    return found


def _joined(words: list[str]) -> tuple[list[str], str, int]:
    """The line with what bash has split at "=" and ":" put together."""
    found: list[str] = []
    cut, is_open = 0, False
    for word in words:
        is_break = bool(word) and not word.strip("=:<>!~") and bool(found)
        if is_break or is_open:
            found[-1] += word
            cut = len(found[-1]) - (0 if is_break else len(word))
        else:
            found.append(word)
            cut = 0
        is_open = is_break
    last = found[-1] if found else ""
    return [_unquoted(word) for word in found[:-1]], _unquoted(last), cut


def _unquoted(word: str) -> str:
    return (_split(word) or [""])[0] if word[:1] in {'"', "'"} or "\\" in word else word


def offers(words: list[str], last: str, commands: Mapping[str, str]) -> Iterable[Offer]:
    """Everything that may stand at ``last`` after ``words``; the caller keeps what begins with it."""
    name = next((" ".join(words[:n]) for n in (2, 1) if " ".join(words[:n]) in commands), "")
    if not name:
        depth = len(words)
        parts = (one.split() for one in commands)
        heads = (one[depth] for one in parts if len(one) > depth and one[:depth] == words)
        return [*map(_offer, dict.fromkeys(heads)), *([_offer("--help"), _offer("--version")] if not words else [])]
    return _of_command(getattr(import_module(commands[name]), name.replace(" ", "_")), words[len(name.split()) :], last)


def _of_command(command: Command, words: list[str], last: str) -> Iterable[Offer]:
    options = {text: one for one in command.parameters() if isinstance(one.form, Option) for text in one.form.names}
    before = options.get(words[-1]) if words else None
    if before is not None and _takes_value(before):
        return _values(command, before, last)
    option, equals, value = last.partition("=")
    if equals and option in options:
        return [_offer(f"{option}={one}") for one in _values(command, options[option], value)]
    if last.startswith("-"):
        used = {options[word].name for word in words if word in options and not options[word].is_list}
        return [
            _offer(text, _about(one))
            for text, one in options.items()
            if one.name not in used and (text.startswith("--") or len(last) == 1)
        ] + [_offer("--help", "Show this message and exit.")]
    arguments = [one for one in command.parameters() if isinstance(one.form, Argument)]
    place = len(_places(words, options))
    if not arguments:
        return ()
    at = arguments[min(place, len(arguments) - 1)]
    return _values(command, at, last) if at.is_list or place < len(arguments) else ()


def _places(words: list[str], options: Mapping[str, Parameter]) -> list[str]:
    """The words that are no options and no values of options."""
    found = []
    is_value = False
    for word in words:
        if not is_value and not word.startswith("-"):
            found.append(word)
        option = options.get(word)
        is_value = not is_value and option is not None and _takes_value(option)
    return found


def _takes_value(one: Parameter) -> bool:
    return one.kind is not bool and not (isinstance(one.form, Option) and (one.form.count or one.form.alone))


def _about(one: Parameter) -> str:
    return one.form.help or ""


def _values(command: Command, one: Parameter, last: str) -> Iterable[Offer]:
    if issubclass(one.kind, Enum):
        return [_offer(str(member.value)) for member in one.kind]
    if one.kind is Path:
        return ()  # the shell completes files itself
    if isinstance(one.form, Argument):
        return _of_argument(command.name, one, last)
    name = one.form.names[-1]
    if name == "--format":
        return map(_offer, _formats(command.name))
    if name == "--method":
        return _methods(last)
    if name in {"--require", "--upgrade"}:
        from gpustack.model.facts import CHECKED_FRAMEWORKS, COMPONENTS

        return map(_offer, (*COMPONENTS, *CHECKED_FRAMEWORKS, "gpu"))
    fixed = _FIXED.get(name)
    if fixed is not None:
        return map(_offer, fixed)
    return _of_facts(name)


_FIXED = {
    "--arch": ("x86_64", "aarch64"),
    "--level": ("quick", "smoke", "full"),
    "--target": ("sbsa", "drive-os", "qnx"),
}
"""Values of options that are plain text, so that a wrong one has an error of its own."""


def _formats(command: str) -> tuple[str, ...]:
    if command == "verify":
        from gpustack.verify.writers import MODULES

        return tuple(MODULES)
    if command in {"plan", "render"}:
        from gpustack.render.api import FORMATS, PYTHON_FORMATS

        return (*FORMATS, *PYTHON_FORMATS)
    return ("text", "json")


def _methods(last: str) -> Iterable[Offer]:
    from gpustack.model.facts import COMPONENTS
    from gpustack.model.request import METHODS

    component, equals, _ = last.partition("=")
    if equals:
        return [_offer(f"{component}={one}") for one in METHODS]
    return map(_offer, (*METHODS, *(f"{one}=" for one in COMPONENTS)))


def _of_argument(command: str, one: Parameter, last: str) -> Iterable[Offer]:
    if command in _TAKE_COMPONENTS:
        return _requirements(last)
    if command == "verify":
        from gpustack.model.facts import CHECKED_FRAMEWORKS, COMPONENTS

        return map(_offer, (*COMPONENTS, *CHECKED_FRAMEWORKS))
    if command == "matrix" and one.name == "what":
        return _requirements(last) if "==" in last else [*map(_offer, _facts().subjects), *_requirements(last)]
    if command == "schema":
        return map(_offer, ("host", "check", "plan", "lock", "report"))
    return map(_offer, ("ffmpeg", "tensorrt", "gpu")) if command == "bench" else ()


def _requirements(last: str) -> Iterable[Offer]:
    """Components, and after a comparison their versions, newest first."""
    from gpustack.model.facts import COMPONENTS
    from gpustack.model.frameworks import FRAMEWORKS, LIBRARIES

    sign = next((sign for sign in _COMPARED if sign in last), "")
    if sign:
        component = last.partition(sign)[0]
        return [_offer(f"{component}{sign}{one}") for one in _versions(component)]
    return map(_offer, (*COMPONENTS, *FRAMEWORKS, *(LIBRARIES if last.startswith("nvidia") else ())))


def _versions(component: str) -> Iterable[str]:
    from gpustack.model.frameworks import DISTRIBUTIONS

    facts = _facts()
    if component in DISTRIBUTIONS:
        from gpustack.solve.frameworks.catalog import Catalog
        from gpustack.versions import version_key

        return sorted({row.version for row in Catalog(facts).rows(component)}, key=version_key, reverse=True)
    return (row.version for row in facts.releases(component))


def _of_facts(name: str) -> Iterable[Offer]:
    if name == "--os":
        return [_offer(row.key, row.name) for row in _facts().systems]
    if name == "--gpu":
        return map(
            _offer, dict.fromkeys(one for row in _facts().rows("gpus", "products", _Named) for one in row.names())
        )
    if name == "--driver":
        return map(_offer, _versions("driver"))
    return ()


def _facts() -> Matrix:
    from gpustack.matrix.index import load_matrix

    return load_matrix()


def _bash(found: list[Offer], cut: int) -> str:
    return "\n".join("".join(f"\\{c}" if c in " ()'\"&;|<>$`\\*?" else c for c in one[cut:]) for one in found)


def _fish(found: list[Offer], _: int) -> str:
    return "\n".join(f"{one}\t{' '.join(one.about.split())}" if one.about else one for one in found)


def _zsh(found: list[Offer], _: int) -> str:
    if not found:
        return "_files"
    return "_arguments '*: :(({}))'".format("\n".join(_zsh_word(one) for one in found))


def _zsh_word(one: Offer) -> str:
    texts = (one, " ".join(one.about.split())) if one.about else (one,)
    return ":".join(f'"{_zsh_escaped(text)}"' for text in texts)


def _zsh_escaped(text: str) -> str:
    for sign, instead in (('"', '""'), ("'", "''"), ("$", "\\$"), ("`", "\\`"), (":", "\\\\:")):
        text = text.replace(sign, instead)
    return text


_WRITTEN = {"bash": _bash, "fish": _fish, "zsh": _zsh}
