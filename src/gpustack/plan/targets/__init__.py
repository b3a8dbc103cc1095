"""Setups that build programs for another machine: servers with Arm processors, DRIVE OS Linux, DRIVE OS QNX."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from gpustack.errors import UnsupportedError
from gpustack.matrix.index import Matrix
from gpustack.model.host import Host
from gpustack.model.request import Request
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft
from gpustack.plan.targets.base import TargetPlanner
from gpustack.solve.crossing import ARCH, FOLDERS

NAMES = ("sbsa", "drive-os", "qnx")
_MODULES = {"sbsa": "sbsa", "drive-os": "drive_os", "qnx": "qnx"}
_ALLOWED = ("cuda", "cudnn")


def target_steps(ctx: Context) -> list[Draft]:
    """The steps that the request's target adds to those of the host's own toolkit; none without a target."""
    if not ctx.request.target or ctx.version("cuda") is None:
        return []
    module = import_module(f"gpustack.plan.targets.{_MODULES[ctx.request.target]}")
    return cast("TargetPlanner", module.TARGET).drafts(ctx)


def demand_host(matrix: Matrix, host: Host, request: Request) -> None:
    """Refuse hosts and components that a target does not support. Raises UnsupportedError with an alternative."""
    target = request.target
    if not target:
        return
    others = sorted({one.component for one in request.requirements} - set(_ALLOWED))
    if others:
        msg = f"a cross-compilation setup for {target} contains only CUDA and cuDNN, not {', '.join(others)}"
        hint = "install the driver and everything else on the target itself: plan them there, without --target"
        raise UnsupportedError(msg, code="target-component", hint=hint)
    if host.arch != ARCH:
        msg = f"cross packages are for {ARCH} hosts, not for {host.arch or 'a host of unknown architecture'}"
        raise UnsupportedError(
            msg,
            code="target-host",
            where=host.os.spelled,
            hint="on a machine of the target's own architecture, omit --target",
        )
    folder = FOLDERS.get(target, FOLDERS["drive-os"])
    known = [row for row in matrix.repositories if row.arch == folder and row.family == "apt"]
    if not any(row.repo == host.os.repo for row in known):
        msg = f"a cross-compilation setup for {target} is planned on Ubuntu, not on {host.os.called}"
        names = ", ".join(sorted(row.repo for row in known))
        raise UnsupportedError(
            msg, code="target-host", where=host.os.spelled, hint=f"hosts whose repository has {folder}: {names}"
        )
