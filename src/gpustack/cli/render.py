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
    ) -> int:
        """Write a saved plan in another form."""
        from gpustack.plan.document import load
        from gpustack.render.api import demand_format, remarks
        from gpustack.render.api import render as write

        demand_format(format)
        loaded = load(plan)
        frame.document(write(loaded, format))
        for text in remarks(loaded, format):
            frame.warn(text)
        return 0
