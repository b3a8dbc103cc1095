"""``gpustack verify``."""

from pathlib import Path
from typing import Annotated

import typer

from gpustack.cli import frame
from gpustack.cli.options import HostFile, Root, host_of


def register(application: typer.Typer) -> None:
    """Add the command to the application."""

    @frame.command(application, "verify", example="gpustack verify driver cuda --format junit --output report.xml")
    def verify(
        components: Annotated[
            list[str] | None, typer.Argument(metavar="COMPONENT...", help="driver, cuda, cudnn (all if none is named).")
        ] = None,
        level: Annotated[str, typer.Option("--level", metavar="LEVEL", help="quick: reads only.")] = "quick",
        require: Annotated[
            list[str] | None,
            typer.Option("--require", metavar="COMPONENT", help="A skip of it is a failure; repeatable."),
        ] = None,
        format: Annotated[
            str, typer.Option("--format", metavar="FORMAT", help="text, json, junit, tap, github, prometheus.")
        ] = "text",
        output: Annotated[Path | None, typer.Option("--output", metavar="FILE", help="Write the report there.")] = None,
        root: Root = None,
        host: HostFile = None,
    ) -> int:
        """Prove that the stack works here: exit 1 when a check fails."""
        from gpustack.system.run import LocalRunner
        from gpustack.verify.api import exit_code, write
        from gpustack.verify.api import verify as run

        matrix = frame.matrix()
        found = host_of(matrix, root, host, None, None, None, None)
        runner = LocalRunner() if root is None and host is None else None
        report = run(tuple(components or ()), level, found, matrix, runner, tuple(require or ()))
        text = write(report, format, colour=output is None and frame.wants_color())
        if output is None:
            frame.document(text)
        else:
            _save(text, output)
        return exit_code(report)


def _save(text: str, path: Path) -> None:
    from gpustack.errors import GpustackError
    from gpustack.system.files import write_atomically

    try:
        write_atomically(path, text)
    except OSError as exc:
        msg = f"cannot be written: {exc.strerror or exc}"
        raise GpustackError(msg, where=str(path), hint="choose another --output") from exc
