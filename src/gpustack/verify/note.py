"""Who hears of checks and measurements while they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Note = Callable[[Literal["starts", "ends"], str], None]
"""Hears of each check, by id, and of each engine that is measured, when it starts and when it ends."""


def silent(event: Literal["starts", "ends"], identity: str) -> None:
    """Hear nothing."""
