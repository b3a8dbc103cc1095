"""What a component adds to its bare installation, whatever the method."""

from __future__ import annotations

from gpustack.model.resolution import Pick
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft


def is_runtime(ctx: Context, pick: Pick) -> bool:
    """Whether only the libraries of a pick are wanted (``--stage runtime``), and packages with them alone are known."""
    return ctx.request.stage == "runtime" and pick.offer.package_set("runtime") is not None


class Component:
    """The defaults; a component overrides what it needs. ``phase`` is the place of its installation in a plan."""

    phase = "libraries"

    def before(self, ctx: Context, pick: Pick) -> list[Draft]:  # noqa: ARG002 (for those that need it)
        """Steps before the installation; it waits for their keys."""
        return []

    def roles(self, ctx: Context, pick: Pick) -> tuple[str, ...]:  # noqa: ARG002
        """The roles of package sets to install: the first is required, the others optional."""
        return ("main",)

    def after(self, ctx: Context, pick: Pick, installed: tuple[str, ...]) -> list[Draft]:  # noqa: ARG002
        """Steps after the installation, whose steps have the keys ``installed``."""
        return []
