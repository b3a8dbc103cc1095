"""Installation methods by name: how each installs a component on the host."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from gpustack.model.request import Method
from gpustack.plan.methods.base import MethodPlanner


def planner(name: Method) -> MethodPlanner:
    """The planner of a method."""
    return cast("MethodPlanner", import_module(f"gpustack.plan.methods.{name}").PLANNER)
