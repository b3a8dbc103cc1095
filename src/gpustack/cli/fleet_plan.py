"""``gpustack fleet plan``."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gpustack.cli import frame
from gpustack.cli.declare import Argument, Option, command
from gpustack.cli.fleet_options import named, table
from gpustack.cli.options import CHOICE_OPTIONS, DetailedExitCode, Strict, TextOrJson
from gpustack.cli.outputs import folder

if TYPE_CHECKING:
    from gpustack.cli.stack_options import StackOptions
    from gpustack.matrix.index import Matrix
    from gpustack.model.fleet import Fleet, FleetPlan, HostClass
    from gpustack.model.host import Host
    from gpustack.model.plan import Plan

CHANGES_PENDING, INCOMPATIBLE, UNKNOWN = 6, 3, 7


@command(
    "fleet plan",
    example="gpustack fleet plan snap driver cuda --out plans",
    takes={**CHOICE_OPTIONS, "strict": Strict, "detailed_exitcode": DetailedExitCode},
)
def fleet_plan(
    options: Mapping[str, Any],
    fleet: Annotated[Path, Argument(metavar="DIR", help="The folder of `gpustack fleet detect`.")],
    requirements: Annotated[
        list[str] | None, Argument(metavar="REQUIREMENT...", help="cuda>=12.4,<13 driver==580.* ...")
    ] = None,
    out: Annotated[Path | None, Option("--out", metavar="DIR", help="Save the plan of the fleet there.")] = None,
    allow: Annotated[
        list[str] | None,
        Option("--allow", metavar="HOST", help="Plan this host although it differs from its peers. Repeatable."),
    ] = None,
    what_if: Annotated[
        bool, Option("--what-if", help="Plan nothing: say which hosts the requirements would suit, and which not.")
    ] = False,
    format: Annotated[TextOrJson, Option("--format", help="text, or the document.")] = TextOrJson.TEXT,
) -> int:
    """Plan a fleet: equal hosts get one plan. Exit code 3 if a class of hosts has no stack.

    The file of --file can hold requirements of one inventory group: [groups.training] cuda = "13.*".
    """
    from gpustack.cli.asking import collect_options
    from gpustack.fleet.plan import plan_fleet
    from gpustack.fleet.store import load_fleet, load_host

    place = None if out is None else folder(out, "--out")
    own, of_groups = _tables(options)
    question = collect_options(requirements, {key: value for key, value in options.items() if key != "file"})
    if own is not None:
        from gpustack.cli.requestfile import completed

        question = completed(options["file"], own, question)
    known = load_fleet(fleet)
    hosts = ((one.name, load_host(fleet, one.name)) for one in known.hosts if one.state == "answered")
    matrix = frame.matrix(question.matrices)
    asked = {one.name: _requirements(one.name, one.groups, question.requirements, of_groups) for one in known.hosts}
    if what_if:
        return _what_if(matrix, known, hosts, asked, as_json=format is TextOrJson.JSON)
    made, plans = plan_fleet(
        known,
        hosts,
        asked,
        lambda host, words: _plan(matrix, host, words, question),
        facts=matrix.digest,
        allowed=allow or (),
    )
    if place is not None:
        _save(place, made, plans)
    if format is TextOrJson.JSON:
        frame.document(frame.to_json(made))
    else:
        frame.page(_text(made))
    if any(one.refused for one in made.classes):
        return INCOMPATIBLE
    return CHANGES_PENDING if question.is_exit_detailed and any(one.steps for one in made.classes) else 0


def _tables(options: Mapping[str, Any]) -> "tuple[dict[str, Any] | None, dict[str, tuple[str, ...]]]":
    """The tables of the file without those of groups, and the requirements of each group."""
    path: Path | None = options.get("file")
    if path is None:
        return None, {}
    from gpustack.cli.requestfile import read_toml, requirements_of

    own = read_toml(path, "strings need quotes; tables are [stack], [options] and [groups.NAME]")
    groups = own.pop("groups", {})
    if not isinstance(groups, dict):
        from gpustack.errors import DocumentError

        msg = "groups must be tables"
        raise DocumentError(msg, code="bad-request-file", where=str(path), hint='[groups.training]\ncuda = "13.*"')
    return own, {name: requirements_of(path, stack) for name, stack in groups.items()}


def _requirements(
    name: str, groups: tuple[str, ...], general: tuple[str, ...], of_groups: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """What one host is to have: the requirements of its groups, which replace general ones of the same component."""
    from gpustack.errors import UsageError
    from gpustack.solve.requirements import parse_requirement

    found: dict[str, str] = {}
    for group in groups:
        for word in of_groups.get(group, ()):
            component = parse_requirement(word).component
            if found.setdefault(component, word) != word:
                msg = f"its groups require {found[component]} and {word}"
                hint = "give one of them in [groups.NAME] of the file"
                raise UsageError(msg, code="conflicting-options", where=name, hint=hint)
    rest = [word for word in general if parse_requirement(word).component not in found]
    return (*rest, *found.values())


def _plan(matrix: "Matrix", host: "Host", words: tuple[str, ...], question: "StackOptions") -> "Plan":
    from msgspec.structs import replace

    from gpustack.cli.asking import request_for
    from gpustack.plan.build import build
    from gpustack.solve.resolve import demand_judged, resolve

    request = request_for(matrix, host, replace(question, requirements=words))
    resolution = resolve(matrix, host, request)
    if question.strict:
        demand_judged(resolution)
    return build(host, request, resolution, matrix)


def _save(place: Path, made: "FleetPlan", plans: "Mapping[str, Plan]") -> None:
    """Write the plans of the classes, then the document that names them, which makes the others valid."""
    from gpustack.fleet import layout
    from gpustack.fleet.store import write_document, write_text
    from gpustack.plan.document import dump

    for name, plan in plans.items():
        write_text(layout.class_file(place, name), dump(plan))
    write_document(layout.plan_file(place), made)


def _text(made: "FleetPlan") -> str:
    rows: list[tuple[str, ...]] = [("class", "hosts", "system", "kernel", "GPUs", "plan")]
    rows += [
        (one.name, str(len(one.hosts)), one.system, one.kernel or "-", one.gpus or "-", _change(one))
        for one in made.classes
    ]
    lines = table(rows) if made.classes else []
    for one in made.classes:
        if one.refused is not None:
            lines.append(f"{one.name}: refused: {one.refused.message.splitlines()[0]} ({named(one.hosts)})")
            lines += [f"    {line}" for line in one.refused.message.splitlines()[1:]]
            lines += [f"    hint: {line}" for line in one.refused.hint.splitlines()]
        lines += [f"{one.name}: warning: {text}" for text in one.warnings]
    for host in made.omitted:
        why = host.reason or f"{'; '.join(host.remarks)}; --allow {host.name} plans it"
        lines.append(f"{host.name}: omitted: {why}")
    planned = sum(len(one.hosts) for one in made.classes if one.refused is None)
    to_do = sum(len(one.hosts) for one in made.classes if one.steps)
    refused = sum(len(one.hosts) for one in made.classes if one.refused is not None)
    end = f"{planned} hosts planned in {len(made.classes)} classes, {to_do} of them to change"
    return "\n".join([*lines, f"{end}; {refused} refused, {len(made.omitted)} omitted"])


def _change(one: "HostClass") -> str:
    if one.refused is not None:
        return "refused"
    if not one.steps:
        return "nothing to do"
    words = []
    for component, (before, after) in one.stack.items():
        if before != after:
            words.append(f"{component} {before} -> {after}" if before else f"{component} {after}")
        else:
            words.append(f"{component} {after} kept")
    ends = [*(["reboot"] if one.reboot else []), *([f"{one.download / 1e9:.1f} GB"] if one.download else [])]
    return "; ".join([", ".join(words), *ends])


def _what_if(
    matrix: "Matrix", known: "Fleet", hosts: Any, asked: Mapping[str, tuple[str, ...]], *, as_json: bool
) -> int:
    from gpustack.errors import UsageError
    from gpustack.fleet.what_if import judge_fleet

    if not any(asked.values()):
        msg = "--what-if requires a version"
        raise UsageError(
            msg, code="missing-argument", hint="for example: gpustack fleet plan snap driver==580.95.05 --what-if"
        )
    found = judge_fleet(matrix, hosts, asked)
    if as_json:
        frame.document(frame.to_json(found))
    else:
        rows: list[tuple[str, ...]] = [("class", "hosts", "GPUs", "verdict", "names")]
        rows += [(one.name, str(len(one.hosts)), one.gpus or "-", one.verdict, named(one.hosts)) for one in found]
        lines = table(rows)
        for one in found:
            lines += [f"{one.name}: {text}" for text in one.reasons]
        lost = sum(len(one.hosts) for one in found if one.verdict == "incompatible")
        open_ = sum(len(one.hosts) for one in found if one.verdict == "unknown")
        unseen = sum(one.state != "answered" for one in known.hosts)
        lines.append(f"{lost} hosts would drop out, of {open_} the facts do not say; {unseen} gave no answer")
        frame.page("\n".join(lines))
    verdicts = {one.verdict for one in found}
    return INCOMPATIBLE if "incompatible" in verdicts else UNKNOWN if "unknown" in verdicts else 0
