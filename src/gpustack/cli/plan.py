"""``gpustack plan``."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gpustack.cli import frame
from gpustack.cli.asking import Requirements, collect_options, host_and_request
from gpustack.cli.declare import Option, command
from gpustack.cli.live import live_facts
from gpustack.cli.options import HOST_OPTIONS, PLAN_OPTIONS, LockOption
from gpustack.cli.outputs import demand_lock_place, demand_one, save
from gpustack.cli.package_index import IndexOption, index_of
from gpustack.cli.stack_options import StackOptions

if TYPE_CHECKING:
    from gpustack.model.plan import Plan
    from gpustack.render.settings import Settings

CHANGES_PENDING = 6


def make_plan(question: StackOptions) -> "Plan":
    """Make the plan for a request. Raises NoSolutionError (3), UnsupportedError (4), UsageError (2)."""
    from gpustack.plan.build import build
    from gpustack.solve.resolve import demand_judged, resolve

    matrix = frame.matrix(question.matrices)
    host, request = host_and_request(matrix, question)
    if question.live:
        matrix = live_facts(matrix, host, question)
    resolution = resolve(matrix, host, request)
    if question.strict:
        demand_judged(resolution)
    return build(host, request, resolution, matrix)


@command(
    "plan",
    example='gpustack plan cuda "cudnn==9.*" --os ubuntu24.04 --gpu L4',
    takes={**HOST_OPTIONS, **PLAN_OPTIONS},
)
def plan(
    options: Mapping[str, Any],
    requirements: Requirements = None,
    format: Annotated[
        str | None,
        Option("--format", metavar="FORMAT", help="table (if none is given: short on a terminal), json, shell, ..."),
    ] = None,
    lock: LockOption = None,
    index: IndexOption = None,
) -> int:
    """Plan the steps that take a host to a stack. Changes nothing, needs no root, touches no network.

    With no requirement: driver, CUDA and cuDNN for this machine.
    """
    from gpustack.render.api import demand_format, remarks

    question = collect_options(requirements, options, format=format)
    form = question.format or "table"
    demand_format(form)
    named = index_of(form, index)
    is_shown = demand_one({"--out": question.out, "--lock": lock}, question.format)
    if lock is not None:
        demand_lock_place(lock)
    made = make_plan(question)
    if question.out is not None:
        save_plan(made, question.out)
    if lock is not None:
        from gpustack.install.lock.document import dump, of_plan

        save(dump(of_plan(made)), lock, "--lock")
    if is_shown:
        show(made, form, named, is_short=question.format is None)
    if form != "table" or not is_shown:  # which shows them itself
        for text in (*made.warnings, *remarks(made, form)):
            frame.warn(text)
    return pending(made, question)


def show(plan: "Plan", form: str, index: str, settings: "Settings | None" = None, *, is_short: bool = False) -> None:
    """Write a plan to standard output; the table in the width of the terminal. ``index`` is that of `index_of`.

    ``is_short`` hides the details of steps on a terminal; a pipe or a file always has it.
    """
    from gpustack.render.api import render

    if form != "table":
        frame.document(render(plan, form, settings, index=index))
        return
    from gpustack.render.table import WIDTH, coloured
    from gpustack.render.table import render as table

    text = table(plan, frame.width(WIDTH), is_short=is_short and frame.is_shown())
    frame.document(coloured(text) if frame.wants_color() else text)


def pending(plan: "Plan", question: StackOptions) -> int:
    """The exit code of a successful plan, as --detailed-exitcode defines it."""
    return CHANGES_PENDING if question.is_exit_detailed and plan.steps else 0


def save_plan(plan: "Plan", path: Path) -> None:
    """Write the plan as JSON, complete or not at all. Raises GpustackError if the place cannot be written."""
    from gpustack.plan.document import dump

    save(dump(plan), path, "--out")
