"""``gpustack mcp``: the read-only commands as tools for agents."""

from pathlib import Path
from typing import Annotated

from gpustack.cli.declare import Option, command


@command("mcp", example="gpustack mcp --approve plan.json")
def mcp(
    approve: Annotated[
        list[Path] | None,
        Option(
            "--approve",
            metavar="PLAN.json",
            help="A plan that you have read: the agent may install this one, by its digest. Repeatable.",
        ),
    ] = None,
) -> int:
    """Serve agents over standard input and output, in the Model Context Protocol.

    The tools detect, check, plan, explain and look up facts. Nothing is installed but the plans of --approve.
    """
    from gpustack.cli.mcp_tools import Tools
    from gpustack.errors import GpustackError
    from gpustack.plan.document import load

    plans = tuple(load(path) for path in approve or ())
    try:
        from mcp.server import MCPServer
    except ImportError as exc:
        msg = "the library of the Model Context Protocol is not installed"
        raise GpustackError(
            msg, code="tool-missing", hint="pip install 'gpustack-provision[mcp]', on Python 3.10 or newer"
        ) from exc
    Tools(plans).serve(MCPServer)
    return 0
