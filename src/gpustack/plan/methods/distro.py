"""The distribution's own packages: one origin for all, updated with the system."""

from __future__ import annotations

from gpustack.model import actions as do
from gpustack.model.actions import Package
from gpustack.model.resolution import Pick
from gpustack.plan import done
from gpustack.plan.components import component, roles
from gpustack.plan.context import Context
from gpustack.plan.downloads import reason_of
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import manager
from gpustack.plan.methods.base import MethodPlanner
from gpustack.plan.methods.driver_lock import unattended
from gpustack.plan.methods.network import packages_of, sets
from gpustack.plan.preparation import enable, refresh_system
from gpustack.plan.signed_modules import signed_modules, sources_of_signed_modules


class Distro(MethodPlanner):
    """Without an exact version: the archive of a release has one at a time, and updates it."""

    def drafts(self, ctx: Context, pick: Pick) -> list[Draft]:
        part = component(pick.component)
        tool = manager(ctx.system.family)
        extra = ("persistenced",) if pick.component == "driver" else ()
        rows = sets(pick, (*roles(ctx, pick), *extra))
        signed = signed_modules(ctx, pick) if pick.component == "driver" else ()
        packages = [*packages_of(pick, rows), *(Package(name=name) for name in signed)]
        before = enable(ctx, [f"distro-{_section_of(ctx, pick)}"])
        before += [refresh_system(ctx)] if tool.name == "apt" and not before else []
        before += part.before(ctx, pick)
        before += unattended(ctx, tool) if pick.component == "driver" else []
        for row in rows:
            if row.note and row.role in {"main", "runtime"}:
                ctx.warn(f"{pick.component} of the distribution: {row.note}")
        install = draft(
            f"install:{pick.component}",
            after=(*(one.key for one in before), "index:system"),
            component=pick.component,
            kind="install-packages",
            title=f"install {pick.component} {pick.version} of {ctx.system.name}",
            why=f"{reason_of(pick)}; its archive has this version and its updates{_signed(ctx, signed)}",
            actions=(
                do.InstallPackages(
                    manager=tool.name,
                    packages=tuple(sorted(packages, key=lambda one: bool(one.pin))),
                ),
            ),
            undo=(do.RemovePackages(manager=tool.name, names=tuple(one.name for one in packages), with_parts=True),),
            done_when=done.packages(tool, packages),
            phase=part.phase,
            sources=tuple(
                dict.fromkeys((*ctx.addresses(*rows), *(sources_of_signed_modules(ctx, pick) if signed else ())))
            ),
        )
        # The toolkit of a distribution is on the default path, so its environment needs no step.
        after = [] if pick.component == "cuda" else part.after(ctx, pick, (install.key,))
        return [*before, install, *after]


def _signed(ctx: Context, names: tuple[str, ...]) -> str:
    if not names:
        return ""
    return (
        f". Secure Boot is on: the modules are those that {ctx.base.name} builds and signs for its kernels, which need "
        "no compiler and no key to be enrolled, and follow the kernel's updates"
    )


def _section_of(ctx: Context, pick: Pick) -> str:
    """The package whose section of the archive is needed: the driver's contains the toolkit and cuDNN too."""
    driver = ctx.changes("driver")
    is_held = pick.component in {"cuda", "cudnn"} and driver is not None and driver.method == "distro"
    return "driver" if is_held else pick.component


PLANNER = Distro()
