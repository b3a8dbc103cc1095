"""Wheels in a virtual environment of their own: nothing of the system's Python is touched."""

from __future__ import annotations

from gpustack.errors import UnsupportedError
from gpustack.model.resolution import Pick
from gpustack.plan.components import component
from gpustack.plan.context import Context
from gpustack.plan.downloads import reason_of
from gpustack.plan.draft import Draft, draft
from gpustack.plan.lookup import package_sets
from gpustack.plan.managers import NAMES, manager
from gpustack.plan.managers.base import Package
from gpustack.plan.methods.base import MethodPlanner
from gpustack.plan.methods.network import packages_of

ENVIRONMENT = "/opt/gpustack/python"


class Pip(MethodPlanner):
    """The real wheels by name and version; never a project that only fetches others while it installs."""

    def drafts(self, ctx: Context, pick: Pick) -> list[Draft]:
        rows = package_sets(
            ctx.matrix.packages(pick.component),
            component=pick.component,
            version=pick.version,
            method="pip",
            family="pip",
            repo="",
            arch=(ctx.arch,),
            cuda=ctx.version("cuda"),
        )[:1]
        if not rows:
            msg = f"the facts name no wheels of {pick.component} {pick.version} for {ctx.arch}"
            raise UnsupportedError(msg, hint="another version, or another method (`--method`), may have an offer")
        packages = packages_of(pick, rows)
        words = [f"{one.name}=={one.pin or pick.version}" for one in packages]
        before = [*_tools(ctx), _environment()]
        install = draft(
            f"install:{pick.component}",
            after=[one.key for one in before],
            component=pick.component,
            kind="pip-install",
            title=f"install the wheels of {pick.component} {pick.version}",
            why=f"{reason_of(pick)}; wheels only, as a source distribution would run code of its own while it installs",
            commands=((f"{ENVIRONMENT}/bin/pip", "install", "--no-input", "--only-binary=:all:", *words),),
            packages=tuple(words),
            undo=((f"{ENVIRONMENT}/bin/pip", "uninstall", "--yes", *(one.name for one in packages)),),
            phase=component(pick.component).phase,
            sources=ctx.addresses(*rows),
        )
        return [*before, install]


def _tools(ctx: Context) -> list[Draft]:
    """Debian and its kin keep the module venv in a package of its own."""
    if ctx.system.family != "apt" or ctx.system.family not in NAMES:
        return []
    tool = manager(ctx.system.family)
    return [
        draft(
            "venv-tools",
            component="",
            kind="install-packages",
            title="install python3-venv",
            why="it makes virtual environments",
            commands=(*tool.refresh(), tool.install([Package(name="python3-venv")])),
            packages=("python3-venv",),
            undo_note="this common tool stays",
            phase="prerequisites",
        )
    ]


def _environment() -> Draft:
    return draft(
        "venv",
        after=["venv-tools"],
        component="",
        kind="run",
        title=f"make the virtual environment {ENVIRONMENT}",
        why="wheels of the system's Python belong to its package manager",
        commands=(("python3", "-m", "venv", ENVIRONMENT),),
        undo=(("rm", "-rf", "--", ENVIRONMENT),),
        done_when=f"path {ENVIRONMENT}/bin/pip",
        phase="prerequisites",
    )


PLANNER = Pip()
