"""Methods of delivery, found by their name: how each brings a component onto the host."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from gpustack.errors import UnsupportedError
from gpustack.plan.methods.base import MethodPlanner

NAMES = ("network", "local", "tar", "runfile", "distro", "pip", "source", "container", "zip")
_THERE = ("network", "local", "tar", "runfile", "distro", "pip", "source", "container", "zip")


def planner(name: str) -> MethodPlanner:
    """The planner of a method. Raises UnsupportedError when this version has none."""
    if name not in _THERE:
        msg = f"this version of gpustack cannot plan the method {name!r}"
        raise UnsupportedError(msg, hint=f"methods it can plan: {', '.join(_THERE)}")
    return cast("MethodPlanner", import_module(f"gpustack.plan.methods.{name}").PLANNER)
