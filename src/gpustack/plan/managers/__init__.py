"""Package managers: how each defines a repository, installs an exact version, holds it, and removes it."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from gpustack.errors import UnsupportedError
from gpustack.plan.managers.base import Manager

NAMES = ("apt", "dnf", "tdnf", "yum", "zypper")


def manager(name: str) -> Manager:
    """The manager of that name. Raises UnsupportedError without one."""
    if name not in NAMES:
        msg = f"packages cannot be installed with {name or 'an unknown package manager'!r}"
        raise UnsupportedError(msg, code="no-package-manager", hint=f"package managers: {', '.join(NAMES)}")
    return cast("Manager", import_module(f"gpustack.plan.managers.{name}").MANAGER)
