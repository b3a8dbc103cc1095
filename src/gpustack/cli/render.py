"""``gpustack render``."""

from pathlib import Path
from typing import Annotated

import typer

from gpustack.cli import frame


def register(application: typer.Typer) -> None:
    """Add the command to the application."""

    @frame.command(application, "render", example="gpustack render plan.json --format table")
    def render(
        plan: Annotated[Path, typer.Argument(metavar="PLAN.json", help="A plan saved by `gpustack plan --out`.")],
        format: Annotated[str, typer.Option("--format", metavar="FORMAT", help="table, json, shell, ...")] = "table",
        short: Annotated[
            bool, typer.Option("--short", help="cloud-init: only call gpustack, for images that carry it.")
        ] = False,
    ) -> int:
        """Write a saved plan in another form."""
        from gpustack.plan.document import load
        from gpustack.render.api import demand_format, remarks, render_short
        from gpustack.render.api import render as write

        demand_format(format)
        loaded = load(plan)
        if short:
            frame.document(render_short(loaded, format))
            return 0
        frame.document(write(loaded, format))
        for text in remarks(loaded, format):
            frame.warn(text)
        return 0
