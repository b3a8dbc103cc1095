"""``gpustack install``: run a plan, resume it, or roll it back."""

import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gpustack.cli import frame
from gpustack.cli.asking import collect_options
from gpustack.cli.declare import Argument, Option, command
from gpustack.cli.options import CHOICE_OPTIONS, LockOption, MinSpeedOption, MirrorOption, WaitOption
from gpustack.cli.stack_options import StackOptions

if TYPE_CHECKING:
    from gpustack.cli.install_sources import InstallSources
    from gpustack.install.journal.records import Origin
    from gpustack.install.options import Options, Setting
    from gpustack.matrix.index import Matrix
    from gpustack.model.plan import Plan


class RebootPolicy(str, Enum):
    """What happens when a step needs a reboot."""

    NOW = "now"
    ASK = "ask"
    NEVER = "never"


@command("install", example="gpustack install cuda --dry-run", takes=CHOICE_OPTIONS)
def install(
    options: Mapping[str, Any],
    what: Annotated[
        list[str] | None,
        Argument(metavar="[PLAN.json | REQUIREMENT...]", help="A saved plan (- is standard input), or requirements."),
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Print what would be done, and do nothing.")] = False,
    yes: Annotated[bool, Option("--yes", help="Do not ask.")] = False,
    root: Annotated[
        Path | None, Option("--root", metavar="DIR", help="Install into another file system tree, by chroot.")
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Resume the last run.")] = False,
    rollback: Annotated[bool, Option("--rollback", help="Undo the last run, in reverse order.")] = False,
    abandon: Annotated[
        bool, Option("--abandon", help="Abandon the last run: its changes stay, and other plans can be installed.")
    ] = False,
    reboot: Annotated[
        RebootPolicy | None,
        Option("--reboot", help="When a step requires it: reboot and continue, ask (the default), or stop."),
    ] = None,
    bundle: Annotated[
        Path | None,
        Option("--bundle", metavar="DIR", help="Use plan and files of a bundle: no network is required."),
    ] = None,
    fingerprint: Annotated[
        str | None,
        Option("--fingerprint", metavar="FPR", help="The key that must have signed the bundle; fetch prints it."),
    ] = None,
    mirror: MirrorOption = None,
    min_speed: MinSpeedOption = None,
    lock: LockOption = None,
    wait: WaitOption = None,
) -> int:
    """Install a plan on this machine or in a tree. Every step is journaled and can be rolled back.

    With requirements it plans first, shows the plan, and asks.
    """
    from gpustack.cli.install_sources import open_sources, origin_of

    # Created files have the same modes everywhere, whatever the umask of the caller, as in the rendered script.
    os.umask(0o022)
    named = _make_origin(reboot, wait)
    how = _options(root, named, is_asked=not yes)
    _demand_one_task(what, {"--resume": resume, "--rollback": rollback, "--abandon": abandon}, dry_run=dry_run)
    given = origin_of(bundle=bundle, fingerprint=fingerprint, mirrors=mirror or [], lock=lock, min_speed=min_speed)
    if resume:
        return _resume(how, named.or_else(given))
    supply = open_sources(what or [], given)
    if rollback:
        return _rollback(how, supply)
    if abandon:
        return _abandon(how, supply)
    return _install(collect_options(what, options, root=root), how, supply.named(named), dry_run=dry_run)


def _make_origin(reboot: RebootPolicy | None, wait: float | None) -> "Origin":
    """The options of this call that a later ``--resume`` has to know."""
    from gpustack.install.journal.records import Origin

    matrices = frame.settings().matrices
    return Origin(
        reboot=reboot.value if reboot else "", wait=wait, matrices=str(matrices.absolute()) if matrices else ""
    )


def _options(root: Path | None, named: "Origin", *, is_asked: bool) -> "Options":
    from gpustack.install.options import Options

    how = Options(root=root, assume_yes=not is_asked)
    return Options(
        root=root,
        assume_yes=not is_asked,
        reboot=named.reboot or how.reboot,
        wait=how.wait if named.wait is None else named.wait,
    )


def _demand_one_task(what: list[str] | None, tasks: Mapping[str, bool], *, dry_run: bool) -> None:
    from gpustack.errors import UsageError

    given = [name for name, value in tasks.items() if value]
    if len(given) > 1 or (given and (what or dry_run)):
        msg = f"{given[0]} uses the run in the journal and accepts nothing else"
        raise UsageError(msg, code="conflicting-options", hint=f"`gpustack install {given[0]}`")


def _install(question: StackOptions, options: "Options", supply: "InstallSources", *, dry_run: bool) -> int:
    from gpustack.install.journal.records import Origin

    if question.matrices is not None:
        supply = supply.named(Origin(matrices=str(question.matrices.absolute())))
    plan, is_saved = _plan(question, supply, options)
    if is_saved:
        _demand_fresh(plan, question, options)
    if dry_run:
        frame.page(_preview(plan, options, supply))
        return 0
    if not plan.steps:
        frame.say("nothing to do: the host has this stack already")
        return 0
    supply.demand_lock_places(options.root)
    if options.assume_yes and supply.words():
        frame.say(supply.words())
    _confirm(_preview(plan, options, supply), options, "Install this plan?")
    from gpustack.install.api import install as carry_out

    supply.lay(options.root)
    return _write_lock(carry_out(plan, _setting(options, supply)), question, options, supply)


def _preview(plan: "Plan", options: "Options", supply: "InstallSources") -> str:
    from gpustack.install.run.dry_run import show

    words = supply.words()
    return f"{words}\n\n{show(plan, options)}" if words else show(plan, options)


def _resume(options: "Options", given: "Origin") -> int:
    """Resume with the options of the original run, except those given again."""
    from gpustack.cli.install_sources import reopen_sources
    from gpustack.install.api import begun, resume

    root, former = begun(options)
    if root != options.root:
        frame.say(f"resuming in {root}, where the last run was started")
    origin = given.or_else(former)
    options = _options(root, origin, is_asked=not options.assume_yes)
    supply = reopen_sources(origin, frame.warn)
    supply.demand_lock_places(root)
    supply.lay(root)
    question = collect_options(None, {}, root=root, matrices=Path(origin.matrices) if origin.matrices else None)
    return _write_lock(resume(_setting(options, supply)), question, options, supply)


def _write_lock(code: int, question: StackOptions, options: "Options", supply: "InstallSources") -> int:
    """Write the lock of what was installed, once all of it is."""
    from gpustack.detect.api import detect

    if code == 0:
        supply.write_lock(options.root, lambda: detect(question.root, frame.matrix(question.matrices)))
    return code


def _rollback(options: "Options", supply: "InstallSources") -> int:
    from gpustack.install.api import rollback
    from gpustack.install.run.dry_run import show_rollback

    _confirm(show_rollback(options), options, "Roll this run back?")
    return rollback(_setting(options, supply))


def _abandon(options: "Options", supply: "InstallSources") -> int:
    from gpustack.install.api import abandon
    from gpustack.install.run.dry_run import show_abandon

    text = show_abandon(options)
    if options.assume_yes:
        frame.say(text)
    _confirm(text, options, "Abandon this run?")
    return abandon(_setting(options, supply))


def _setting(options: "Options", supply: "InstallSources") -> "Setting":
    from gpustack.cli.progress import Progress
    from gpustack.install.options import Setting

    report = Progress()
    download = supply.downloader(report.say)
    return Setting(options=options, download=download, report=report, origin=supply.origin)


def _plan(question: StackOptions, supply: "InstallSources", options: "Options") -> "tuple[Plan, bool]":
    """The plan, and whether it came from a file."""
    from gpustack.cli.plan import make_plan

    given = supply.plan(options.root)
    if given is not None:
        return given, True
    what = question.requirements
    if len(what) == 1 and (what[0].endswith(".json") or "/" in what[0] or what[0] == "-"):
        from gpustack.plan.document import load

        return load(Path(what[0])), True
    return make_plan(question), False


def _demand_fresh(plan: "Plan", question: StackOptions, options: "Options") -> None:
    """Raise GpustackError if a saved plan was made for another host. A run that has begun has changed its host."""
    from gpustack.detect.api import detect
    from gpustack.install.api import is_begun
    from gpustack.install.run.host_changed import demand_same_host

    facts = frame.matrix(question.matrices)
    _demand_facts_of(plan, facts)
    if not is_begun(options, plan):
        demand_same_host(plan, detect(question.root, facts))


def _demand_facts_of(plan: "Plan", facts: "Matrix") -> None:
    """Raise OldFactsError if a saved plan was made with newer facts than these: what they warn of is unknown here."""
    from msgspec import UNSET

    from gpustack.matrix.age import OldFactsError

    if plan.facts_date is not UNSET and plan.facts_date > facts.date and plan.facts != facts.digest:
        msg = f"the plan was made with facts of {plan.facts_date}; those of this machine are of {facts.date}"
        hint = "`gpustack matrix update`, or make the plan here"
        raise OldFactsError(msg, code="facts-older-than-plan", where=f"plan {plan.digest[:12]}", hint=hint)


def _confirm(text: str, options: "Options", question: str) -> None:
    """Show what will be done and ask. Raises UsageError if nobody can answer, GpustackError if the answer is no."""
    from gpustack.errors import GpustackError, UsageError

    if options.assume_yes:
        return
    frame.say(text)
    if not frame.can_ask():
        msg = "cannot ask for confirmation: standard input is not a terminal"
        raise UsageError(msg, code="no-terminal", hint="--yes skips the confirmation, --dry-run shows a preview")
    if not frame.confirm(question):
        msg = "cancelled: nothing was changed"
        raise GpustackError(msg, code="declined")
