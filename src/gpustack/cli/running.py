"""The line at a terminal that tells what runs."""

from typing import TYPE_CHECKING

from gpustack.cli import frame
from gpustack.visible import visible

if TYPE_CHECKING:
    from gpustack.verify.declare import Note


def note() -> "Note":
    """Who tells a person at a terminal what runs; nobody elsewhere."""
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
