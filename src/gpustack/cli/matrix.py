"""``gpustack matrix``: show and check the facts."""

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gpustack.cli import frame, live, matrix_feed
from gpustack.cli.declare import Argument, Option, command

if TYPE_CHECKING:
    from gpustack.matrix.index import Matrix


class Action(str, Enum):
    """What to do with the facts."""

    LIST = "list"
    SHOW = "show"
    SOURCES = "sources"
    CHECK = "check"
    STATUS = "status"
    UPDATE = "update"
    ROLLBACK = "rollback"
    EXPORT = "export"


@command("matrix", example="gpustack matrix show cuda==13.0.2")
def matrix(
    action: Annotated[
        Action, Argument(metavar="ACTION", help="list, show, sources, check, status, update, rollback or export.")
    ],
    what: Annotated[
        str | None, Argument(metavar="[WHAT]", help="A subject, subject.table, component==version or source.")
    ] = None,
    complete: Annotated[
        str | None,
        Option("--complete", metavar="RELEASE", help="With check: what RELEASE lacks that the one before it had."),
    ] = None,
    all: Annotated[bool, Option("--all", help="With show: every row of a version, with its sources.")] = False,
    source: Annotated[
        str | None,
        Option("--from", metavar="URL|FILE", help="With update: the publisher's address, a copy of it, or one file."),
    ] = None,
    trusted_root: Annotated[
        Path | None,
        Option("--trusted-root", metavar="FILE", help="With update: the publisher's root of trust (1.root.json)."),
    ] = None,
    repos: Annotated[
        bool, Option("--repos", help="With update: what the package manager of this host has read of its repositories.")
    ] = False,
    root: Annotated[
        Path | None, Option("--root", metavar="DIR", help="With --repos: the lists of another tree.")
    ] = None,
    format: Annotated[str, Option("--format", metavar="FORMAT", help="text or json.")] = "text",
) -> int:
    """Show, check and update the facts. Each has its source, its date, and how it is known."""
    as_json = _is_json(format)
    of_update = {"--from": source, "--trusted-root": trusted_root, "--repos": repos or None, "--root": root}
    _demand_action(of_update, action, Action.UPDATE)
    if repos:
        return live.update_repos(root)
    if action is Action.UPDATE:
        return matrix_feed.update(source, trusted_root)
    if action is Action.ROLLBACK:
        return matrix_feed.roll_back()
    if action is Action.STATUS:
        return matrix_feed.show_status(as_json=as_json)
    if complete is not None:
        return _complete(action, complete, as_json=as_json)
    if action is Action.CHECK:
        return _check(as_json=as_json)
    facts = frame.matrix()
    if action is Action.EXPORT:
        frame.document(_export(facts, what))
    elif action is Action.LIST:
        frame.page(_list(facts, what, as_json=as_json))
    elif action is Action.SOURCES:
        frame.page(_sources(facts, what, as_json=as_json))
    else:
        frame.page(_show(facts, what, as_json=as_json, is_whole=all))
    return 0


def _demand_action(options: Mapping[str, object], action: Action, wanted: Action) -> None:
    """Raise UsageError if an option of another action is given."""
    from gpustack.errors import UsageError

    given = next((name for name, value in options.items() if value is not None), None)
    if given is not None and action is not wanted:
        msg = f"{given} belongs to the action {wanted.value}"
        raise UsageError(msg, code="conflicting-options", hint=f"`gpustack matrix {wanted.value} {given} ...`")


def _is_json(name: str) -> bool:
    from gpustack.errors import UsageError

    if name not in {"text", "json"}:
        msg = f"{name!r} is not an output format of this command"
        raise UsageError(msg, code="unknown-format", hint="text or json")
    return name == "json"


def _list(facts: "Matrix", subject: str | None, *, as_json: bool) -> str:
    names = [_subject(facts, subject)] if subject else list(facts.subjects)
    if as_json:
        return frame.to_json({name: {"about": facts.about(name), "tables": facts.tables(name)} for name in names})
    lines = []
    for name in names:
        lines.append(f"{name}: {facts.about(name)}")
        lines += [
            f"  {table:28} {count:6} row{'' if count == 1 else 's'}" for table, count in facts.tables(name).items()
        ]
    return "\n".join(lines)


def _sources(facts: "Matrix", subject: str | None, *, as_json: bool) -> str:
    import msgspec

    names = [_subject(facts, subject)] if subject else list(facts.subjects)
    if as_json:
        return frame.to_json({f"{n}/{k}": msgspec.to_builtins(s) for n in names for k, s in facts.sources(n).items()})
    lines = []
    for name in names:
        for key, source in facts.sources(name).items():
            said = (source.known, source.dated and f"dated {source.dated}", source.read and f"read {source.read}")
            lines.append(f"{name}/{key}  {source.address}  ({', '.join(filter(None, (*said, source.note)))})")
    return "\n".join(lines)


def _export(facts: "Matrix", what: str | None) -> str:
    """The facts as JSON without indentation: a document for programs."""
    import msgspec

    from gpustack.matrix.export import published

    return msgspec.json.encode(published(facts, what)).decode()


def _show(facts: "Matrix", what: str | None, *, as_json: bool, is_whole: bool) -> str:
    from gpustack.errors import UsageError
    from gpustack.matrix.show import everything_about, rows_of, source_named

    if what is None:
        msg = "nothing to show is given"
        raise UsageError(
            msg,
            code="missing-argument",
            hint="for example: gpustack matrix show cuda==13.0.2, cuda.releases or cuda/guide_13_4",
        )
    found: list[dict[str, Any]]
    if "/" in what:
        found = [source_named(facts, what)]
    elif re.search(r"[=<>!~]", what):
        from gpustack.cli.matrix_summary import summary
        from gpustack.solve.requirements import parse_requirement

        requirement = parse_requirement(what)
        found = everything_about(facts, requirement.component, requirement.versions)
        if not as_json and not is_whole:
            return summary(found, requirement.component, what, frame.width())
    else:
        subject, _, table = what.partition(".")
        found = rows_of(facts, _subject(facts, subject), table)
    if as_json:
        return frame.to_json(found)
    return "\n".join(_row_text(facts, row) for row in found)


def _row_text(facts: "Matrix", row: dict[str, Any]) -> str:
    """One row for people: its place, its values, how it is known, and its source."""
    from gpustack.cli.matrix_summary import value_text

    place = row.pop("in", "")
    sources = tuple(row.pop("src", ()))
    known = row.pop("known", "")
    values = "  ".join(f"{name}={value_text(value)}" for name, value in row.items())
    addresses = "".join(f"\n    [{address}]" for address in facts.addresses(sources))
    return f"{place}: {values}  ({known}){addresses}"


def _subject(facts: "Matrix", name: str) -> str:
    from gpustack.errors import UsageError
    from gpustack.solve.requirements import nearest

    if name in facts.subjects:
        return name
    msg = f"{name!r} is not a subject of the matrices"
    raise UsageError(msg, code="unknown-subject", hint=nearest(name, facts.subjects))


def _check(*, as_json: bool) -> int:
    from gpustack.errors import MatrixError
    from gpustack.matrix.check import faults, generated

    code = 1
    try:
        found = faults(frame.settings().matrices)
    except MatrixError as error:
        if not as_json:
            raise
        found, code = f"{error.where}: {error.message}".splitlines(), error.exit_code
    made = {} if found else generated(frame.matrix())
    if as_json:
        tables = {place: {"generated": some, "rows": rows} for place, (some, rows) in made.items()}
        frame.document(frame.to_json({"faults": found} if found else {"faults": [], "generated": tables}))
        return code if found else 0
    for fault in found:
        frame.say(fault)
    frame.document(f"{len(found)} fault{'s' if len(found) > 1 else ''}" if found else _share(made))
    return 1 if found else 0


def _share(made: dict[str, tuple[int, int]]) -> str:
    """That nothing is wrong, and how many rows no hand has written."""
    facts = frame.matrix()
    rows = sum(count for subject in facts.subjects for count in facts.tables(subject).values())
    total = sum(some for some, _ in made.values())
    lines = ["every invariant holds", f"{total} of {rows} rows are generated ({total * 100 // rows} %)"]
    return "\n".join([*lines, *(f"  {place}: {some} of {count}" for place, (some, count) in made.items())])


def _complete(action: Action, release: str, *, as_json: bool) -> int:
    from gpustack.errors import UsageError
    from gpustack.matrix.complete import lacking
    from gpustack.solve.requirements import parse_requirement

    wanted = parse_requirement(release)
    if action is not Action.CHECK or not wanted.versions.startswith("=="):
        msg = f"--complete {release} requires one release and the action check"
        raise UsageError(
            msg, code="missing-argument", hint="for example: gpustack matrix check --complete cuda==13.4.2"
        )
    text = wanted.versions[2:]
    before, found = lacking(frame.matrix(), wanted.component, text)
    if as_json:
        frame.document(frame.to_json({"release": text, "before": before.version, "lacks": found}))
        return 1 if found else 0
    for line in found:
        frame.say(line)
    count = f"lacks {len(found)} of what" if found else "has everything that"
    frame.document(f"{wanted.component} {text} {count} {before.version} has")
    return 1 if found else 0
