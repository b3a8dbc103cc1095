"""What every command shares: the common options of a run, error messages, and how documents are written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from msgspec import Struct

from gpustack.cli.declare import COMMON, Color, Command
from gpustack.errors import GpustackError
from gpustack.visible import visible, visible_json

if TYPE_CHECKING:
    from gpustack.matrix.index import Matrix


class Settings(Struct, frozen=True, kw_only=True):
    """The common options of one run."""

    verbose: int = 0
    is_quiet: bool = False
    color: Color = Color.AUTO
    matrices: Path | None = None
    max_facts_age: str = ""
    templates: Path | None = None


_WARNED: ContextVar[bool] = ContextVar("warned", default=False)
"""Whether this run has warned of old facts."""
_SETTINGS: ContextVar[Settings] = ContextVar("settings", default=Settings())  # noqa: B039 (frozen)


def settings() -> Settings:
    """The common options of this run."""
    return _SETTINGS.get()


def run(command: Command, values: dict[str, Any]) -> int:
    """Run a command with the value of each of its parameters, print its errors, and return its exit code."""
    arguments = dict(values)
    common = {key: arguments.pop(key) for key in COMMON}
    _SETTINGS.set(
        Settings(
            verbose=common["verbose"],
            is_quiet=common["quiet"],
            color=common["color"],
            matrices=common["matrices"],
            max_facts_age=common["max_facts_age"] or os.environ.get("GPUSTACK_MAX_FACTS_AGE", ""),
            templates=common["templates"],
        )
    )
    _WARNED.set(False)
    if command.takes:
        arguments["options"] = {key: arguments.pop(key) for key in command.takes}
    return _guarded(lambda: _run(command, arguments), command.fault_code)


def _run(command: Command, arguments: dict[str, Any]) -> int:
    _lay_templates_over()
    if settings().max_facts_age and command.name != "matrix":  # some of its actions are about the age
        from gpustack.matrix.updates import newest_store

        demand_facts_age(newest_store()[0].index.date)
    return command.function(**arguments)


def _guarded(function: Callable[[], int], fault_code: int) -> int:
    try:
        return function()
    except GpustackError as error:
        _tell(error)
        return error.exit_code
    except KeyboardInterrupt as stop:
        say(str(stop) or "interrupted")
        return 128 + getattr(stop, "number", 2)  # 2: SIGINT, which Python itself reports
    except RecursionError:
        _traceback()
        say("error[nested-too-deeply]: the input is nested too deeply")
        return 2
    except Exception as error:  # noqa: BLE001 (a fault of ours is reported like any other)
        _traceback()
        say(shortened(f"error[internal-fault]: {type(error).__name__}: {error}"))
        say("hint: run it again with -vv to see where; report it with the output of `gpustack detect --record DIR`")
        return fault_code


def _lay_templates_over() -> None:
    """Use the templates of the command line from here on. Raises UsageError where one is wrong."""
    from gpustack.resources import site_templates

    folder = settings().templates
    site_templates.set(folder)
    if folder is not None:
        from gpustack.render.templating import check_folder

        check_folder(folder)


def _tell(error: GpustackError) -> None:
    """Print what is wrong, where, why, and the next thing to try."""
    _traceback()
    where = f"{visible(error.where)}: ".replace("\n", "\\n") if error.where else ""
    for line in f"error[{error.code}]: {where}{visible(error.message)}".splitlines():
        say(shortened(line))
    for line in visible(error.hint).splitlines():
        say(shortened(f"hint: {line}"))


def shortened(line: str) -> str:
    """Return ``line`` with long repetitions of a value cut."""
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


_LONGEST_LINE = 1500


def _traceback() -> None:
    if settings().verbose >= 2:
        import traceback

        draw(traceback.format_exc())


def say(text: str) -> None:
    """Print a line to standard error, if there is one."""
    draw(f"{visible(text)}\n")


def draw(text: str) -> None:
    """Write terminal control sequences to standard error unchanged; data in them must come through `visible`.

    Failure to write (a closed terminal, a reader that left, a full disk) is ignored: it must not end a command.
    """
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # ValueError: closed
            sys.stderr.write(text)
            sys.stderr.flush()


def confirm(question: str) -> bool:
    """Ask for confirmation; no if the terminal is gone."""
    from gpustack.system.signals import await_input

    while True:
        draw(f"{visible(question)} [y/N]: ")
        try:
            await_input(sys.stdin.fileno())
            line = sys.stdin.readline()
        except (OSError, ValueError):  # ValueError: undecodable input
            line = ""
        if not line.endswith("\n"):
            say("")
        answer = line.strip().lower()
        if answer in {"y", "yes"}:
            return True
        if answer in {"", "n", "no"}:
            return False
        say("answer y or n")


def can_ask() -> bool:
    """Whether there is a person at a terminal."""
    return _is_terminal(sys.stdin) and _is_terminal(sys.stderr)


def has_terminal() -> bool:
    """Whether standard error is a terminal on which lines can be overwritten."""
    return _is_terminal(sys.stderr) and os.environ.get("TERM", "dumb") != "dumb"


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def is_shown() -> bool:
    """Whether a person reads standard output on a terminal."""
    return _is_terminal(sys.stdout)


def width(elsewhere: int = 80) -> int:
    """Columns of the terminal on standard output, at least 40; ``elsewhere`` for a pipe or a file."""
    return max(40, os.get_terminal_size(sys.stdout.fileno()).columns) if _is_terminal(sys.stdout) else elsewhere


def mebibytes(size: float) -> str:
    """A size in bytes as people read it."""
    return f"{size / 2**20:.1f} MiB"


def transferred(name: str, there: float, size: float | None) -> str:
    """How much of a file is there, as a line."""
    return f"    {name} {mebibytes(there)}" + (f" of {mebibytes(size)}" if size is not None else "")


def warn(text: str) -> None:
    """Print a warning to standard error, unless quiet."""
    if not settings().is_quiet:
        say(f"warning: {text}")


def page(text: str, *, fault: type[GpustackError] | None = None) -> None:
    """Write a text for people to standard output: like `document`, but with invisible characters spelled out.

    On a terminal, lines that are wider are folded between words; a pipe gets them whole.
    """
    shown = visible(text)
    document(_folded(shown, width()) if _is_terminal(sys.stdout) else shown, fault=fault)


def _folded(text: str, columns: int) -> str:
    """The text with no line wider than ``columns``, but for long words; what follows is indented by two more."""
    from textwrap import wrap

    found: list[str] = []
    for line in text.split("\n"):
        if len(line) <= columns or " " not in line.strip():
            found.append(line)
            continue
        pad = " " * (len(line) - len(line.lstrip()) + 2)
        found += wrap(line, columns, subsequent_indent=pad, break_long_words=False, break_on_hyphens=False)
    return "\n".join(found)


def document(text: str, *, fault: type[GpustackError] | None = None) -> None:
    """Write a document to standard output, alone and complete.

    If the reader leaves early, the command still runs to its own end and exit code. With ``fault`` the document must
    arrive, because it reports what was done. Raises that, or GpustackError, if it cannot be written.
    """
    kind = fault or GpustackError
    if sys.stdout is None:
        msg = "standard output is closed"
        raise kind(msg, code="not-writable", hint="the document goes there: redirect it to a file")
    try:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()
    except OSError as exc:
        _abandon_stdout()
        if isinstance(exc, BrokenPipeError) and fault is None:
            return
        msg = f"standard output cannot be written: {exc.strerror or exc}"
        raise kind(msg, code="not-writable", hint="redirect it to a file on a file system with free space") from exc


def _abandon_stdout() -> None:
    """Discard what is left in the buffer, or Python would fail on it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def wants_color() -> bool:
    """Whether standard output may be coloured."""
    color = settings().color
    if color is Color.AUTO:
        if os.environ.get("NO_COLOR"):
            return False
        is_forced = os.environ.get("FORCE_COLOR", "0") not in {"", "0"}
        return is_forced or (_is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb")
    return color is Color.ALWAYS


def matrix(overlay: Path | None = None) -> Matrix:
    """The facts with the user's overlay: that of the command line, else ``overlay``."""
    from gpustack.matrix.index import load_matrix

    facts = load_matrix(settings().matrices or overlay)
    demand_facts_age(facts.date)
    return facts


def demand_facts_age(date: str) -> None:
    """Warn once of facts that are old. Raises OldFactsError (exit 8) if they are older than the user allows."""
    from gpustack.matrix.age import WARN_AFTER, age_of, demand_age, in_words, limit_of

    text = settings().max_facts_age
    limit = limit_of(text) if text else None
    if limit is not None:
        demand_age(date, limit)
    if not text and not _WARNED.get() and (age := age_of(date)) > WARN_AFTER:
        _WARNED.set(True)
        warn(f"the facts are {in_words(age)} old (of {date}): `gpustack matrix update` gets newer ones")


def to_json(value: object) -> str:
    """A document of ours as JSON, indented for people and diffs."""
    import msgspec

    return visible_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
