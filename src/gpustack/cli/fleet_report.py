"""``gpustack fleet report``."""

from pathlib import Path
from typing import Annotated

from gpustack.cli import frame
from gpustack.cli.declare import Argument, Option, command
from gpustack.cli.outputs import STANDARD, save


# An internal error must not look like a failed host, which is 1.
@command("fleet report", example="gpustack fleet report reports --output fleet.html --output fleet.xml", fault_code=2)
def fleet_report(
    folders: Annotated[list[Path], Argument(metavar="DIR...", help="Folders of `gpustack fleet verify`.")],
    format: Annotated[
        list[str] | None,
        Option(
            "--format", metavar="FORMAT", help="text, json, junit, html, prometheus. Repeatable, one for each --output."
        ),
    ] = None,
    output: Annotated[
        list[Path] | None,
        Option("--output", metavar="FILE", help="Write a report to FILE; - is standard output. Repeatable."),
    ] = None,
) -> int:
    """Merge the reports of many hosts: exit 1 unless the verification of every host ran and passed."""
    from gpustack.cli.verify import paired
    from gpustack.errors import UsageError
    from gpustack.fleet.causes import summary
    from gpustack.fleet.merge import exit_code, merge
    from gpustack.fleet.writers import MODULES, write

    reports = paired(tuple(format or ()), tuple(output or ()), known=tuple(MODULES))
    merged = merge(folders)
    for name, path in reports:
        save(write(merged, name), path, "--output", fault=UsageError)
    if ("text", STANDARD) not in reports and not frame.settings().is_quiet:
        frame.say(summary(merged))
    return exit_code(merged)
