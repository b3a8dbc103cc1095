"""What an installation method does for one component."""

from __future__ import annotations

from typing import Protocol

from gpustack.model.resolution import Pick
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft


class MethodPlanner(Protocol):
    """A method: it turns a pick into steps, or refuses."""

    def drafts(self, ctx: Context, pick: Pick) -> list[Draft]:
        """The steps that install this pick. Raises UnsupportedError if the method has no offer here."""
        ...
