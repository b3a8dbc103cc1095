"""What each component needs besides its installation, by name."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from gpustack.model.resolution import Pick
from gpustack.plan.components.base import Component, is_runtime
from gpustack.plan.context import Context

__all__ = ["component", "is_runtime", "roles"]

_MODULES = {
    "driver": "driver",
    "fabric-manager": "fabric_manager",
    "imex": "imex",
    "cuda": "cuda",
    "cuda-compat": "cuda_compat",
    "cudnn": "cudnn",
    "container-toolkit": "container_toolkit",
    "dcgm": "dcgm",
    "gds": "gds",
}


def component(name: str) -> Component:
    """The component of that name; the defaults if it has no needs of its own."""
    module = _MODULES.get(name)
    if module is None:
        return Component()
    return cast("Component", import_module(f"gpustack.plan.components.{module}").COMPONENT)


def roles(ctx: Context, pick: Pick) -> tuple[str, ...]:
    """The roles of the package sets to install for a pick: its libraries alone, or all that its component takes."""
    return ("runtime",) if is_runtime(ctx, pick) else component(pick.component).roles(ctx, pick)
