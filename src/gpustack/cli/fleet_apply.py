"""``gpustack fleet apply``."""

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gpustack.cli import frame
from gpustack.cli.declare import Argument, Option, command
from gpustack.cli.fleet_options import Forks, ProgramFile, named

if TYPE_CHECKING:
    from gpustack.fleet.apply import Choices, Outcome
    from gpustack.model.fleet import FleetPlan
    from gpustack.model.plan import Plan
    from gpustack.system.signals import Interrupts


class Gate(str, Enum):
    """What a host has to pass before it goes back into service."""

    NONE = "none"
    QUICK = "quick"
    SMOKE = "smoke"
    FULL = "full"


class Reboot(str, Enum):
    """Whether hosts may be rebooted."""

    NOW = "now"
    NEVER = "never"


@command("fleet apply", example="gpustack fleet apply plans --waves 1,5%,25%,100% --max-fail 1% --gate smoke")
def fleet_apply(
    plans: Annotated[Path, Argument(metavar="DIR", help="The folder of `gpustack fleet plan --out`.")],
    waves: Annotated[
        str, Option("--waves", metavar="LIST", help="How many hosts are done after each wave: numbers or percentages.")
    ] = "1,5%,25%,100%",
    max_fail: Annotated[
        str, Option("--max-fail", metavar="N|N%", help="More failures than this stop later waves.")
    ] = "0",
    gate: Annotated[Gate, Option("--gate", help="The verification that a host has to pass.")] = Gate.SMOKE,
    drain: Annotated[
        str, Option("--drain", metavar="WAY", help="Out of service first: none, slurm, kubectl or a program of yours.")
    ] = "none",
    program: ProgramFile = None,
    reboot: Annotated[Reboot, Option("--reboot", help="Whether hosts are rebooted when required.")] = Reboot.NOW,
    resume: Annotated[bool, Option("--resume", help="Continue an earlier run that was stopped or failed.")] = False,
    yes: Annotated[bool, Option("--yes", help="Do not ask for confirmation.")] = False,
    forks: Forks = None,
) -> int:
    """Carry out the plan of a fleet in waves, through Ansible. Exit code 1 if a host failed or was not begun.

    Each host is checked for changes since the plan, drained, changed, verified, and returned only if it passed.
    """
    from gpustack.fleet.apply import Choices, only_one
    from gpustack.fleet.engine import FORKS, demand_engine
    from gpustack.fleet.store import load_plan
    from gpustack.system.signals import Ended

    demand_engine()
    made = load_plan(plans)
    loaded = _class_plans(plans, made)
    choices = Choices(
        waves=waves,
        most_failures=max_fail,
        level=None if gate is Gate.NONE else gate.value,
        program=program,
        reboots=reboot is Reboot.NOW,
        forks=forks or FORKS,
    )
    _confirm(made, choices, is_sure=yes)
    with only_one(plans):
        outcome, number = _run(plans, made, loaded, choices, drain, resumes=resume)
    frame.page(_text(outcome))
    if number:
        raise Ended(number)
    return 0 if all(phase == "done" for phase, _ in outcome.phases.values()) and not outcome.untouched else 1


def _class_plans(folder: Path, made: "FleetPlan") -> "dict[str, Plan]":
    """The plans of the classes. Raises DocumentError if one is not the plan that the fleet's names."""
    from gpustack.errors import DocumentError
    from gpustack.fleet import layout
    from gpustack.plan.document import load

    found = {}
    for one in made.classes:
        if one.digest:
            found[one.name] = load(layout.class_file(folder, one.name))
            if found[one.name].digest != one.digest:
                msg = f"is not the plan that {layout.PLAN} names for this class"
                place = str(layout.class_file(folder, one.name))
                raise DocumentError(msg, code="plan-altered", where=place, hint="plan the fleet again")
    return found


def _confirm(made: "FleetPlan", choices: "Choices", *, is_sure: bool) -> None:
    from gpustack.errors import GpustackError, UsageError

    hosts = [host for one in made.classes if one.steps for host in one.hosts]
    if is_sure or not hosts:
        return
    if not frame.can_ask():
        msg = "nobody can be asked for confirmation here"
        raise UsageError(msg, code="no-terminal", hint="--yes skips the question")
    reboots = sum(len(one.hosts) for one in made.classes if one.reboot) if choices.reboots else 0
    if not frame.confirm(f"change {len(hosts)} hosts ({named(tuple(hosts))}), {reboots} of them with a reboot?"):
        msg = "cancelled: nothing was changed"
        raise GpustackError(msg, code="declined")


def _run(
    folder: Path, made: "FleetPlan", plans: "dict[str, Plan]", choices: "Choices", drain: str, *, resumes: bool
) -> "tuple[Outcome, int]":
    """The outcome, and the signal that stopped the run, 0 without one."""
    import time

    from gpustack.fleet.apply import Application
    from gpustack.fleet.drain import drain_named
    from gpustack.system.run import LocalRunner
    from gpustack.system.signals import Interrupts

    interrupts = Interrupts()
    stop = Stop(interrupts, frame.say)

    def wait(seconds: float) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not stop.is_stopped():
            time.sleep(0.2)
        return not stop.is_stopped()

    application = Application(
        folder,
        made,
        plans,
        drain_named(drain, LocalRunner(), wait),
        frame.matrix(),
        choices,
        tell=frame.say if not frame.settings().is_quiet else lambda _: None,
        is_stopped=stop.is_stopped,
        is_ended=stop.is_ended,
    )
    application.demand_resume(resumes=resumes)
    interrupts.catch()
    try:
        return application.run(), stop.first
    finally:
        interrupts.release()


class Stop:
    """The first signal stops after the wave that runs, the second ends that, too."""

    def __init__(self, interrupts: "Interrupts", say: Callable[[str], None]) -> None:
        self._interrupts = interrupts
        self._say = say
        self.first = 0
        self._second = 0

    def is_stopped(self) -> bool:
        self._look()
        return bool(self.first)

    def is_ended(self) -> bool:
        self._look()
        return bool(self._second)

    def _look(self) -> None:
        number = self._interrupts.number
        if not number:
            return
        self._interrupts.number = 0
        if not self.first:
            self.first = number
            self._say("stopping: the hosts of this wave come to their end, no other begins; once more ends at once")
        else:
            self._second = number


def _text(outcome: "Outcome") -> str:
    lines = []
    for host, (phase, reason) in sorted(outcome.phases.items()):
        if phase == "done":
            continue
        what = {"begun": "interrupted: --resume carries its plan out again", "drained": "drained, not changed"}
        lines.append(f"{host}: {what.get(phase, phase)}{f': {reason}' if reason else ''}")
    counts = [
        f"{sum(phase == name for phase, _ in outcome.phases.values())} {name}" for name in ("done", "failed", "stale")
    ]
    lines += [outcome.why] if outcome.why else []
    left = f", {len(outcome.untouched)} not begun" if outcome.untouched else ""
    return "\n".join([*lines, f"{', '.join(counts)}{left}"])
