"""``gpustack detect``."""

from pathlib import Path
from typing import Annotated

from gpustack.cli import frame
from gpustack.cli.declare import Option, command
from gpustack.cli.options import Anonymous, HostQuestion, Interpreter, Root, TextOrJson, host_of
from gpustack.cli.outputs import folder

PROBLEMS = 6
"""The exit code of --detailed-exitcode if there are problems."""


@command("detect", example="gpustack detect --format json")
def detect(
    root: Root = None,
    python: Interpreter = None,
    anonymous: Anonymous = None,
    format: Annotated[TextOrJson, Option("--format")] = TextOrJson.TEXT,
    record: Annotated[
        Path | None,
        Option("--record", metavar="DIR", help="Save redacted system data for a bug report or a test fixture."),
    ] = None,
    detailed_exitcode: Annotated[
        bool, Option("--detailed-exitcode", help="Exit 6 if a problem was found that is more than a remark.")
    ] = False,
) -> int:
    """Describe this machine, or another file system tree."""
    if record is not None:
        from gpustack.detect.gather import gather
        from gpustack.detect.record import record as save

        save(gather(root, python=python or ""), folder(record, "--record"))
    host = host_of(frame.matrix(), HostQuestion(root=root, interpreter=python, anonymous=anonymous))
    if format is TextOrJson.JSON:
        frame.document(frame.to_json(host))
    else:
        from gpustack.detect.text import lines

        frame.page("\n".join(lines(host)))
    return PROBLEMS if detailed_exitcode and any(one.severity != "info" for one in host.problems) else 0
