"""What a component adds to its bare installation, whatever method brings it."""

from __future__ import annotations

from gpustack.model.resolution import Pick
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft


class Component:
    """The defaults; a component overrides what it needs. ``phase`` is where its installation stands in a plan."""

    phase = "libraries"

    def before(self, ctx: Context, pick: Pick) -> list[Draft]:  # noqa: ARG002 (for those that need it)
        """Steps that have to come before the installation; their keys are what it waits for."""
        return []

    def roles(self, ctx: Context, pick: Pick) -> tuple[str, ...]:  # noqa: ARG002
        """The roles of package sets to install, the first one required, the others where the facts have them."""
        return ("main",)

    def after(self, ctx: Context, pick: Pick, installed: tuple[str, ...]) -> list[Draft]:  # noqa: ARG002
        """Steps that follow the installation, whose steps have the keys ``installed``."""
        return []
