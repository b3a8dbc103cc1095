"""The vendor's package repository: the component's packages at their exact version, held there."""

from __future__ import annotations

from collections.abc import Iterable

from gpustack.errors import UnsupportedError
from gpustack.model.facts import MIRRORED, PackageSet
from gpustack.model.resolution import Pick
from gpustack.plan import done
from gpustack.plan.components import component
from gpustack.plan.context import Context
from gpustack.plan.downloads import reason_of
from gpustack.plan.draft import Draft, draft
from gpustack.plan.lookup import package_sets
from gpustack.plan.managers import manager
from gpustack.plan.managers.base import Manager, Package
from gpustack.plan.methods.base import MethodPlanner
from gpustack.plan.methods.driver_lock import lock_driver, unlock_commands
from gpustack.plan.methods.imex import imex, is_needed
from gpustack.plan.preparation import enable
from gpustack.plan.repositories import component_repository, repository_row
from gpustack.versions import is_within

_REPLACING = {"apt": ("--autoremove", "--purge"), "dnf": ("--allowerasing",), "zypper": ("--force-resolution",)}
"""The switches with which a package manager takes away what the new driver cannot lie beside."""
_FALLBACK = {"main": "newest"}
"""The role that stands in where a folder has no packages of its own for a branch."""


class Network(MethodPlanner):
    """Packages from NVIDIA's repository for the host's system."""

    def drafts(self, ctx: Context, pick: Pick) -> list[Draft]:
        _demand_served(ctx, pick)
        part = component(pick.component)
        rows = sets(ctx, pick, part.roles(ctx, pick), required=True)
        repository = component_repository(ctx, pick)
        before = part.before(ctx, pick) + (enable(ctx, ["cuda"]) if pick.component == "cuda" else [])
        lock: list[Draft] = []
        if pick.component == "driver":
            lock = lock_driver(ctx, pick, sets(ctx, pick, ("pinning", "branch-lock", "module-stream")))
        keys = [one.key for one in (*repository, *before, *lock)]
        install = install_step(ctx, pick, rows, phase=part.phase, after=keys)
        hold = hold_step(ctx, pick, rows)
        extra: list[Draft] = []
        if pick.component == "driver" and is_needed(ctx):
            for row in sets(ctx, pick, ("imex",), of="fabric-manager"):
                extra += imex(ctx, pick, row, after=(install.key,))
        after = part.after(ctx, pick, (install.key, *(one.key for one in extra)))
        return [*repository, *before, *lock, install, *hold, *extra, *after]


def _demand_served(ctx: Context, pick: Pick) -> None:
    """Raise UnsupportedError when the facts say that the folder for this architecture has other versions only."""
    row = repository_row(ctx, pick.component)
    subject = MIRRORED.get(pick.component, pick.component)
    rows = [
        one
        for one in ctx.matrix.availability(subject)
        if (one.component, one.method, one.repo) == (subject, "network", row.repo)
    ]
    here = [one for one in rows if not one.arch or row.arch in one.arch or "any" in one.arch]
    if rows and not any(is_within(pick.version, one.versions) for one in here):
        offered = " or ".join(one.versions for one in here) or "none"
        msg = f"NVIDIA's repository folder {row.repo}/{row.arch} does not have {pick.component} {pick.version}"
        raise UnsupportedError(msg, hint=f"versions of {pick.component} there: {offered}")


def sets(
    ctx: Context, pick: Pick, roles: Iterable[str], *, required: bool = False, of: str = ""
) -> tuple[PackageSet, ...]:
    """The package sets of these roles, one each, the first role required where ``required``.

    Raises UnsupportedError when the facts name no packages for the first role.
    """
    found: list[PackageSet] = []
    for number, role in enumerate(roles):
        row = _best(ctx, pick, role, of or pick.component)
        if row is None and role in _FALLBACK:
            row = _best(ctx, pick, _FALLBACK[role], of or pick.component)
        if row is not None:
            found.append(row)
        elif required and number == 0:
            where = ctx.system.repo or ctx.system.name
            flavour = f" with {pick.flavour} kernel modules" if pick.flavour else ""
            msg = f"the facts name no packages of {pick.component} {pick.version}{flavour} for {where} on {ctx.arch}"
            raise UnsupportedError(msg, hint="another version, or another method (`--method`), may have an offer")
    return tuple(found)


def install_step(ctx: Context, pick: Pick, rows: tuple[PackageSet, ...], *, phase: str, after: Iterable[str]) -> Draft:
    """The step that installs the packages of these sets at their exact versions."""
    tool = manager(ctx.system.family)
    warn_of_composed(ctx, rows)
    packages = packages_of(pick, rows)
    there = ctx.host.installed.get(pick.component)
    command = _with_switches(ctx, tool, pick, tool.install(packages, downgrade=pick.state == "downgrade"))
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
    # Another major version lies beside this one under other names, so that this one can be taken away again.
    beside = there is not None and bool(there.packages) and {one.name for one in packages}.isdisjoint(there.packages)
    replaces = there is not None and there.version and not (beside and pick.component == "cudnn")
    # Driver and toolkit are packages that only name others.
    is_meta = pick.component in {"driver", "cuda"}
    undo = () if replaces else (tool.remove([one.name for one in packages], with_parts=is_meta),)
    return draft(
        f"install:{pick.component}",
        after=after,
        component=pick.component,
        kind="install-packages",
        title=f"{words.get(pick.state, 'install')} {pick.component} {pick.version}",
        why=why,
        commands=(*unlock_commands(ctx, tool, pick.component, [one.name for one in packages]), command),
        packages=tuple(tool.word(one) for one in packages),
        undo=undo,
        undo_note="" if undo else f"version {there.version if there else ''} was there before; plan for it to go back",
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
    """Warn of package names that follow those of other releases, and that nobody has seen."""
    for row in rows:
        if row.composed:
            names = " ".join(row.packages)
            ctx.warn(
                f"the package name {names} follows the names of other releases and was not seen anywhere:"
                " check that the repository has it"
            )


def hold_step(ctx: Context, pick: Pick, rows: tuple[PackageSet, ...]) -> list[Draft]:
    """The step that keeps packages at their version, where no lock before the installation does so."""
    tool = manager(ctx.system.family)
    names = list(dict.fromkeys(name for row in rows for name in row.packages))
    locked = ("driver", "fabric-manager") if tool.name in {"apt", "dnf"} else ()
    if pick.component in {"cuda", "container-toolkit", *locked} or not names:
        return []
    needs = tool.hold_tools()
    file = tool.hold_file(pick.component, names)
    return [
        draft(
            f"hold:{pick.component}",
            after=[f"install:{pick.component}"],
            component=pick.component,
            kind="hold-packages",
            title=f"hold {pick.component} at {pick.version}",
            why="an ordinary upgrade would take the newest build, which another CUDA or driver may not fit",
            commands=(*((tool.install([Package(name=name) for name in needs]),) if needs else ()), *tool.hold(names)),
            files=(file,) if file else (),
            packages=tuple(names),
            undo=(("rm", "-f", "--", file.path),) if file else tool.unhold(names),
            done_when=done.held(names) if tool.name in {"apt", "zypper"} else "never",
            phase=component(pick.component).phase,
            sources=ctx.addresses(ctx.matrix.conflicts.get("held_packages")),
        )
    ]


def _best(ctx: Context, pick: Pick, role: str, name: str) -> PackageSet | None:
    found = package_sets(
        ctx.matrix.packages(name),
        component=name,
        version=pick.version,
        method="network",
        family=ctx.system.family,
        repo=repository_row(ctx, name).repo,
        arch=ctx.arch_folders,
        cuda=ctx.version("cuda"),
        flavour=pick.flavour,
        role=role,
    )
    return found[0] if found else None


def _with_switches(ctx: Context, tool: Manager, pick: Pick, command: tuple[str, ...]) -> tuple[str, ...]:
    """A driver that replaces another one takes the packages of the old branch or flavour away in the same run."""
    if pick.component != "driver" or "driver" not in ctx.host.installed:
        return command
    extra = _REPLACING.get(tool.name, ())
    verb = command.index("install") if "install" in command else len(command) - 1
    return (*command[: verb + 1], *extra, *command[verb + 1 :])


PLANNER = Network()
