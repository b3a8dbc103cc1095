"""Site checks: Python modules behind entry points, and files with commands and their expected results."""

from __future__ import annotations

import math
import os
import re
import sys
from pathlib import Path

import msgspec
from msgspec import Struct, field

from gpustack.errors import DocumentError, UsageError
from gpustack.model.results import Level
from gpustack.system.run import Finished
from gpustack.verify.declare import (
    COMPONENTS,
    ONLY_SAVED,
    Check,
    Context,
    Outcome,
    errored,
    failed,
    passed,
    register,
    skipped,
)
from gpustack.verify.frame.commands import describe_end, evidence_of

GROUP = "gpustack.checks"
"""The entry point group: each names a module that declares checks when it is imported."""


class Expectation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The expected result of a command. ``stdout`` and ``stderr`` are regular expressions that must match."""

    exit: int | None = 0
    stdout: str = ""
    stderr: str = ""


class SiteCheck(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One ``[[check]]`` of a file: a command as a list of words, its expected result, and the fix."""

    id: str
    command: tuple[str, ...]
    hint: str
    title: str = ""
    level: Level = "smoke"
    needs: tuple[str, ...] = ()
    expect: Expectation = field(default_factory=Expectation)
    timeout: float = 60.0


class SiteChecks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of checks."""

    check: tuple[SiteCheck, ...] = ()


def load_entry_points() -> None:
    """Import what installed packages declare under ``gpustack.checks``.

    Raises UsageError where one of them cannot be imported.
    """
    if not any(_has_group(Path(folder)) for folder in sys.path):
        return
    from importlib.metadata import entry_points  # noqa: PLC0415 (costs more than a quick verification of nothing)

    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as exc:  # noqa: PERF203 (each names its package)
            msg = f"the site checks of {point.name} ({point.value}) cannot be loaded: {type(exc).__name__}: {exc}"
            raise UsageError(msg, code="bad-checks", hint="fix or uninstall the package that contains them") from exc


def _has_group(folder: Path) -> bool:
    """Whether a package installed in this folder has checks. Reading the files is cheaper than parsing them all."""
    head = f"[{GROUP}]".encode()
    try:
        names = os.listdir(folder)  # noqa: PTH208 (a hundred names, at every start)
    except OSError:
        return False
    return any(head in _content(f"{folder}/{name}/entry_points.txt") for name in names if name.endswith("-info"))


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 (as above)
            return stream.read()
    except OSError:
        return b""


def load_file(path: Path, table: object) -> None:
    """Declare the checks of a file, read as ``table``. Raises DocumentError naming the invalid key."""
    try:
        checks = msgspec.convert(table, SiteChecks, strict=True)
    except msgspec.ValidationError as exc:
        raise _fault(path, str(exc)) from exc
    if not checks.check:
        message = "the file has no [[check]]"
        raise _fault(path, message)
    for one in checks.check:
        _declare(path, one)


def _declare(path: Path, one: SiteCheck) -> None:
    if not one.command or any("\0" in word for word in one.command):
        raise _fault(path, f"{one.id}: the command must be a list of words")
    if one.id.partition(".")[0] in COMPONENTS:
        raise _fault(path, f"{one.id}: {one.id.partition('.')[0]} is a component of gpustack; use another name")
    for pattern in (one.expect.stdout, one.expect.stderr):
        try:
            re.compile(pattern)
        except (re.error, OverflowError) as exc:  # noqa: PERF203 (each is named)
            raise _fault(path, f"{one.id}: {pattern!r} is not a regular expression: {exc}") from exc
    if not 0 < one.timeout < math.inf:
        raise _fault(path, f"{one.id}: the timeout must be a number of seconds greater than 0")
    try:
        register(
            Check(
                id=one.id,
                component=one.id.partition(".")[0],
                level=one.level,
                title=one.title or " ".join(one.command),
                expects=_in_words(one),
                fix=one.hint,
                function=lambda context: _judge(one, context),
                needs=one.needs,
                limit_s=one.timeout,
                is_foreign=True,
            )
        )
    except ValueError as exc:
        raise _fault(path, str(exc)) from exc


def _in_words(one: SiteCheck) -> str:
    wanted = [
        f"exits with {one.expect.exit}" if one.expect.exit is not None else "",
        f"writes {one.expect.stdout!r}" if one.expect.stdout else "",
        f"writes {one.expect.stderr!r} to standard error" if one.expect.stderr else "",
    ]
    return f"`{' '.join(one.command)}` {', '.join(part for part in wanted if part) or 'ends'}."


def _judge(one: SiteCheck, context: Context) -> Outcome:
    if context.runner is None:
        return skipped(ONLY_SAVED)
    end = context.run(*one.command, timeout=one.timeout)
    evidence = evidence_of(end, work=context.work)
    called = f"`{' '.join(one.command)}`"
    if end.code is None:
        return errored(f"{called}: {end.error}", one.hint, evidence=evidence)
    if one.expect.exit is not None and end.code != one.expect.exit:
        return failed(
            f"{called} exits with {end.code} instead of {one.expect.exit}",
            actual=f"exit code {end.code}",
            evidence=evidence,
        )
    for pattern, text, where in ((one.expect.stdout, end.out, ""), (one.expect.stderr, end.err, " to standard error")):
        if not pattern:
            continue
        search = _search(context, pattern, text)
        if search.code not in {0, _NOT_FOUND}:
            why = search.error or f"the search {describe_end(search)}"
            return errored(
                f"the output of {called} could not be searched for {pattern!r}{where}: {why}",
                "use an expression without nested repetitions in `expect`",
                evidence=evidence,
            )
        if search.code:
            return failed(f"{called} does not write {pattern!r}{where}", evidence=evidence)
    return passed(f"{called} returns the expected result", evidence=evidence)


_NOT_FOUND = 4
"""The exit code of a search without a match; Python itself never exits with it."""

_SEARCH = f"""
import json, re, sys
with open(sys.argv[1], encoding="utf-8") as stream:
    asked = json.load(stream)
sys.exit(0 if re.search(asked["pattern"], asked["text"], re.MULTILINE) else {_NOT_FOUND})
"""


def _search(context: Context, pattern: str, text: str) -> Finished:
    """Search for an expression in a process of its own, exit code 0 where it matches.

    Some expressions take years, and would block this process.
    """
    import tempfile  # noqa: PLC0415 (only where a site check runs)

    with tempfile.TemporaryDirectory(dir=context.work) as folder:
        path = Path(folder) / "search.json"
        path.write_bytes(msgspec.json.encode({"pattern": pattern, "text": text}))
        return context.run(sys.executable, "-I", "-S", "-c", _SEARCH, str(path), timeout=_SEARCH_S)


_SEARCH_S = 10.0


def _fault(path: Path, message: str) -> DocumentError:
    hint = 'a check is [[check]] with id = "site.name", command = ["program", "word"], hint = "what fixes it"'
    return DocumentError(message, code="bad-checks", where=str(path), hint=hint)
