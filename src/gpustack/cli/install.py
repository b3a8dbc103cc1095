"""``gpustack install``: at present it shows what would run; running comes with the journal that can take it back."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpustack.cli import frame
from gpustack.cli.asking import asked
from gpustack.cli.options import CHOICE_OPTIONS, Root

if TYPE_CHECKING:
    from gpustack.model.plan import Plan


def register(application: typer.Typer) -> None:
    """Add the command to the application."""

    @frame.command(
        application, "install", example="gpustack install cuda --dry-run", takes={"root": Root, **CHOICE_OPTIONS}
    )
    def install(
        options: Mapping[str, Any],
        what: Annotated[
            list[str] | None,
            typer.Argument(metavar="[PLAN.json | REQUIREMENT...]", help="A saved plan, or requirements."),
        ] = None,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done on this machine.")] = False,
        yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    ) -> int:
        """Show what a plan would run on this machine (--dry-run)."""
        from gpustack.render.api import render

        made = _plan(what or [], options)
        if not dry_run:
            _refuse_to_run(made, yes=yes)
        frame.document(render(made, "table"))
        return 0


def _plan(what: list[str], options: Mapping[str, Any]) -> "Plan":
    from gpustack.cli.plan import make_plan

    if len(what) == 1 and (what[0].endswith(".json") or "/" in what[0]):
        from gpustack.plan.document import load

        return load(Path(what[0]))
    return make_plan(asked(what, options))


def _refuse_to_run(plan: "Plan", *, yes: bool) -> None:
    from gpustack.errors import UnsupportedError

    steps = f"{len(plan.steps)} steps" if plan.steps else "nothing"
    unasked = " without asking" if yes else ""
    msg = f"this version does not run plans itself ({steps} to do{unasked})"
    raise UnsupportedError(
        msg, hint="read `gpustack install --dry-run`, then run `gpustack plan --format shell` as root"
    )
