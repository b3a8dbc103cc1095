"""The vendor's package repository: the component's packages at their exact version, on hold."""

from __future__ import annotations

from collections.abc import Iterable

from gpustack.model import actions as do
from gpustack.model.actions import Package
from gpustack.model.facts import PackageSet
from gpustack.model.resolution import Pick
from gpustack.plan import done
from gpustack.plan.components import component, roles
from gpustack.plan.context import Context
from gpustack.plan.downloads import reason_of
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import manager
from gpustack.plan.methods.base import MethodPlanner
from gpustack.plan.methods.driver_lock import lock_driver, unlock
from gpustack.plan.methods.imex import imex, is_needed, warn_of_imex
from gpustack.plan.preparation import enable
from gpustack.plan.repositories import component_repository


class Network(MethodPlanner):
    """Packages from NVIDIA's repository for the host's system."""

    def drafts(self, ctx: Context, pick: Pick) -> list[Draft]:
        part = component(pick.component)
        rows = sets(pick, roles(ctx, pick))
        warn_of_unread(ctx, pick)
        origin = pick.offer.repository
        repository = component_repository(ctx, pick, origin) if origin is not None else []
        before = part.before(ctx, pick) + (enable(ctx, ["cuda"]) if pick.component == "cuda" else [])
        lock: list[Draft] = []
        if pick.component == "driver":
            lock = lock_driver(ctx, pick, sets(pick, ("pinning", "branch-lock", "module-stream")))
        keys = [one.key for one in (*repository, *before, *lock)]
        install = install_step(ctx, pick, rows, phase=part.phase, after=keys)
        hold = hold_step(ctx, pick, rows)
        extra: list[Draft] = []
        if pick.component == "driver":
            warn_of_imex(ctx)
        if pick.component == "driver" and is_needed(ctx) and ctx.resolution.pick("imex") is None:
            for row in sets(pick, ("imex",)):
                extra += imex(ctx, pick, row, after=(install.key,))
        after = part.after(ctx, pick, (install.key, *(one.key for one in extra)))
        return [*repository, *before, *lock, install, *hold, *extra, *after]


def sets(pick: Pick, roles: Iterable[str]) -> tuple[PackageSet, ...]:
    """The package sets of a pick for these roles, one each, if the facts have them."""
    return tuple(row for role in roles if (row := pick.offer.package_set(role)) is not None)


def install_step(ctx: Context, pick: Pick, rows: tuple[PackageSet, ...], *, phase: str, after: Iterable[str]) -> Draft:
    """The step that installs the packages of these sets at their exact versions."""
    tool = manager(ctx.system.family)
    warn_of_composed(ctx, rows)
    packages = packages_of(pick, rows)
    there = ctx.host.installed.get(pick.component)
    words = {"install": "install", "upgrade": "upgrade to", "downgrade": "go back to"}
    pins = sorted({one.pin for one in packages if one.pin})
    loose = [one.name for one in packages if not one.pin]
    why = "; ".join(
        part
        for part in (
            reason_of(pick),
            f"pinned to {', '.join(pins)}" if pins else "",
            f"{', '.join(loose)}: in the version that the repository offers" if loose else "",
        )
        if part
    )
    # Another major version has other package names, so that it can be removed separately.
    beside = there is not None and bool(there.packages) and {one.name for one in packages}.isdisjoint(there.packages)
    replaces = there is not None and there.version and not (beside and pick.component == "cudnn")
    # The packages of driver and toolkit are only meta packages.
    is_meta = pick.component in {"driver", "cuda"}
    names = tuple(one.name for one in packages)
    undo = () if replaces else (do.RemovePackages(manager=tool.name, names=names, with_parts=is_meta),)
    install = do.InstallPackages(
        manager=tool.name,
        packages=tuple(packages),
        downgrade=pick.state == "downgrade",
        # A driver removes the packages of the old branch or flavour in the same transaction.
        replaces=pick.component == "driver" and "driver" in ctx.host.installed,
    )
    return draft(
        f"install:{pick.component}",
        after=after,
        component=pick.component,
        kind="install-packages",
        title=f"{words.get(pick.state, 'install')} {pick.component} {pick.version}",
        why=why,
        actions=(*unlock(ctx, tool, pick.component, names), install),
        undo=undo,
        undo_note=""
        if undo
        else f"version {there.version if there else ''} was installed before; make a plan for it to return to it",
        done_when=done.packages(tool, packages),
        phase=phase,
        sources=ctx.addresses(*rows),
    )


def packages_of(pick: Pick, rows: tuple[PackageSet, ...]) -> list[Package]:
    """The packages of these sets with their pins filled in, each name once."""
    packages: dict[str, Package] = {}
    for row in rows:
        pin = row.pin.replace("{version}", pick.version)
        for name in row.packages:
            packages.setdefault(name, Package(name=name, pin=pin))
    return list(packages.values())


def warn_of_composed(ctx: Context, rows: Iterable[PackageSet]) -> None:
    """Warn about package names that follow those of other releases, but that nobody has seen."""
    for row in rows:
        if row.composed:
            names = " ".join(row.packages)
            ctx.warn(
                f"the package name {names} follows the pattern of other releases and was not seen in any index:"
                " check that the repository has it"
            )


def warn_of_unread(ctx: Context, pick: Pick) -> None:
    """Warn if vendor guides name a folder, but nobody has read which versions it holds."""
    origin = pick.offer.repository
    if pick.offer.unread and origin is not None:
        ctx.warn(
            f"as far as read on {pick.offer.unread}, nobody has seen {pick.component} {pick.version} in the folder "
            f"{origin.repo}/{origin.arch}: the vendor's guides name the folder, but its index was not read. Where the "
            "version is missing, the package manager stops, and another --method is needed"
        )


def hold_step(ctx: Context, pick: Pick, rows: tuple[PackageSet, ...]) -> list[Draft]:
    """The step that holds packages at their version, unless a lock before the installation does."""
    tool = manager(ctx.system.family)
    names = tuple(dict.fromkeys(name for row in rows for name in row.packages))
    locked = ("driver", "fabric-manager") if tool.name in {"apt", "dnf"} else ()
    if pick.component in {"cuda", "container-toolkit", *locked} or not names:
        return []
    file = tool.hold_file(pick.component, names)
    return [
        draft(
            f"hold:{pick.component}",
            after=[f"install:{pick.component}"],
            component=pick.component,
            kind="hold-packages",
            title=f"hold {pick.component} at {pick.version}",
            why="an ordinary upgrade would install the newest build, perhaps incompatible with this CUDA or driver",
            actions=(do.HoldPackages(manager=tool.name, names=names, tools=tool.hold_tools()),),
            files=(file,) if file else (),
            undo=(do.Remove(paths=(file.path,)) if file else do.UnholdPackages(manager=tool.name, names=names),),
            done_when=done.held(names) if tool.name in {"apt", "zypper"} else "never",
            phase=component(pick.component).phase,
            sources=ctx.addresses(ctx.matrix.conflicts.get("held_packages")),
        )
    ]


PLANNER = Network()
