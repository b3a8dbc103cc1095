"""Options that the commands of a fleet share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated

from gpustack.cli import frame
from gpustack.cli.declare import Option
from gpustack.errors import UsageError


class Level(str, Enum):
    """How deep a verification goes."""

    QUICK = "quick"
    SMOKE = "smoke"
    FULL = "full"


Inventory = Annotated[
    list[Path] | None,
    Option("-i", "--inventory", metavar="FILE", help="An inventory of Ansible: file, folder or script. Repeatable."),
]
Limit = Annotated[
    str | None, Option("--limit", metavar="PATTERN", help="Only hosts that match a pattern of Ansible: gpu:!web*.")
]
Forks = Annotated[int | None, Option("--forks", metavar="N", min=1, help="How many hosts at a time (default: 20).")]
ProgramFile = Annotated[
    Path | None,
    Option("--program", metavar="FILE", help="gpustack as one file, which is copied to hosts and verifies them there."),
]


def demand_inventory(given: list[Path] | None) -> list[Path]:
    """The inventories. Raises UsageError if none is given."""
    if not given:
        msg = "no inventory is given"
        raise UsageError(msg, code="missing-argument", where="-i", hint="for example: -i hosts.ini")
    return given


def teller() -> Callable[[str], None]:
    """Shows a counter on a terminal; a pipe gets nothing of it."""
    if not frame.has_terminal() or frame.settings().is_quiet:
        return lambda _: None
    return lambda text: frame.draw(f"\r\x1b[K{text}")


@contextmanager
def interruptible() -> Iterator[tuple[Callable[[], bool], Callable[[str], None]]]:
    """Whether a signal came, and a counter, for one run of Ansible. Raises Ended after it if one came."""
    from gpustack.system.signals import Ended, Interrupts

    tell, interrupts = teller(), Interrupts()
    interrupts.catch()
    try:
        yield (lambda: interrupts.number != 0), tell
    finally:
        interrupts.release()
        tell("")
    if interrupts.number:
        raise Ended(interrupts.number)


def table(rows: list[tuple[str, ...]]) -> list[str]:
    """Rows in columns; the last one is not padded."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def named(hosts: tuple[str, ...], most: int = 4) -> str:
    """The first names, and how many more there are."""
    more = len(hosts) - most
    return ", ".join(hosts[:most]) + (f" and {more} more" if more > 0 else "")
