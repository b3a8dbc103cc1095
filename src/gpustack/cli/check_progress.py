"""The line at a terminal that shows the running checks."""

from typing import TYPE_CHECKING

from gpustack.cli import frame
from gpustack.visible import visible

if TYPE_CHECKING:
    from gpustack.verify.declare import Note


def note() -> "Note":
    """A function that shows the running checks on a terminal; elsewhere it does nothing."""
    from gpustack.verify.declare import silent

    if frame.settings().is_quiet or not frame.has_terminal():
        return silent
    running: dict[str, None] = {}

    def tell(event: str, identity: str) -> None:
        if event == "starts":
            running[identity] = None
        else:
            running.pop(identity, None)
        frame.draw(f"\r\x1b[K{visible(', '.join(running))[:76]}")

    return tell
