"""Downloaded installers: single packages, or a package that puts a whole repository on the host's disk."""

from __future__ import annotations

from gpustack.model import actions as do
from gpustack.model.actions import Package
from gpustack.model.facts import Archive
from gpustack.model.resolution import Pick
from gpustack.plan import done
from gpustack.plan.components import component, is_runtime, roles
from gpustack.plan.context import Context
from gpustack.plan.downloads import archive_tools, fetch, path_of, reason_of
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import manager
from gpustack.plan.managers.base import Manager
from gpustack.plan.methods.base import MethodPlanner
from gpustack.plan.methods.driver_lock import lock_driver
from gpustack.plan.methods.network import packages_of, sets
from gpustack.plan.preparation import enable


class Local(MethodPlanner):
    """Downloads only the NVIDIA files named in the plan, which can be carried to an air-gapped host."""

    def drafts(self, ctx: Context, pick: Pick) -> list[Draft]:
        part = component(pick.component)
        tool = manager(ctx.system.family)
        rows = _files(ctx, pick)
        before = [*archive_tools(ctx), *part.before(ctx, pick)]
        before += enable(ctx, ["cuda"]) if pick.component == "cuda" else []
        whole = _is_repository(rows[0])
        downloads = [fetch(ctx, pick, row, "repositories" if whole else part.phase) for row in rows]
        keys = tuple(one.key for one in (*before, *downloads))
        if whole:
            steps = _by_repository(ctx, tool, pick, rows[0], after=keys)
        else:
            steps = [_by_packages(ctx, tool, pick, rows, after=keys)]
        return [*before, *downloads, *steps, *part.after(ctx, pick, (f"install:{pick.component}",))]


def _files(ctx: Context, pick: Pick) -> tuple[Archive, ...]:
    """The files of a pick: the package with a whole repository, else the single packages."""
    rows = pick.offer.archives
    repositories = tuple(row for row in rows if _is_repository(row))
    last = 2 if "samples" in roles(ctx, pick) else 0 if is_runtime(ctx, pick) else 1
    return repositories[:1] or tuple(row for row in rows if _rank(row.file) <= last)


def _is_repository(row: Archive) -> bool:
    return "repo" in row.file.partition("_")[0]


def _by_repository(ctx: Context, tool: Manager, pick: Pick, row: Archive, *, after: tuple[str, ...]) -> list[Draft]:
    rows = sets(pick, roles(ctx, pick))
    add = _add_repository(ctx, tool, pick, row)
    lock = lock_driver(ctx, pick, ()) if pick.component == "driver" else []
    packages = packages_of(pick, rows)
    install = draft(
        f"install:{pick.component}",
        after=(*after, add.key, *(one.key for one in lock)),
        component=pick.component,
        kind="install-packages",
        title=f"install {pick.component} {pick.version}",
        why=reason_of(pick),
        actions=(do.InstallPackages(manager=tool.name, packages=tuple(packages), downgrade=pick.state == "downgrade"),),
        undo=(do.RemovePackages(manager=tool.name, names=tuple(one.name for one in packages)),),
        done_when=done.packages(tool, packages),
        phase=component(pick.component).phase,
        sources=ctx.addresses(*rows),
    )
    return [add, *lock, install]


def _add_repository(ctx: Context, tool: Manager, pick: Pick, row: Archive) -> Draft:
    name = row.file.partition("_")[0] if tool.name == "apt" else _rpm_name(row.file)
    folder = f"/var/{name}"
    return draft(
        f"repository:{row.file}",
        after=["archive-tools", f"archive:{row.file}"],
        component=row.component or pick.component,
        kind="add-repository",
        title=f"add the repository in {row.file}",
        why=f"it copies the packages to {folder}: nothing else is downloaded",
        actions=(
            do.InstallFile(manager=tool.name, path=path_of(pick, row), name=name),
            *((do.TrustLocalKeys(manager=tool.name, folder=folder),) if tool.name == "apt" else ()),
            do.RefreshIndex(manager=tool.name),
        ),
        undo=(do.RemovePackages(manager=tool.name, names=(name,)),),
        done_when=done.names(tool, (name,)),
        phase="repositories",
        sources=ctx.addresses(row),
    )


def _rank(file: str) -> int:
    """The rank of a package file: the library, its headers, the samples that need both."""
    return 2 if "samples" in file else int("dev" in file)


def _rpm_name(file: str) -> str:
    """The name of the package in an rpm file name: everything before version and release."""
    return file.rsplit("-", 2)[0] if file.count("-") > 1 else file


def _by_packages(
    ctx: Context, tool: Manager, pick: Pick, rows: tuple[Archive, ...], *, after: tuple[str, ...]
) -> Draft:
    """Single packages, the library before its headers: one command per file, in the order of dependencies."""
    ordered = sorted(rows, key=lambda row: (_rank(row.file), row.file))
    names = tuple(row.file.partition("_")[0] if tool.name == "apt" else _rpm_name(row.file) for row in ordered)
    wanted = {name for row in sets(pick, roles(ctx, pick)) for name in row.packages}
    missing = sorted(wanted - set(names))
    if missing:
        ctx.warn(f"of {pick.component} {pick.version} no file is known for these packages: {', '.join(missing)}")
    return draft(
        f"install:{pick.component}",
        after=after,
        component=pick.component,
        kind="install-packages",
        title=f"install {pick.component} {pick.version} from the downloaded packages",
        why=reason_of(pick),
        actions=tuple(
            do.InstallFile(manager=tool.name, path=path_of(pick, row), name=name)
            for row, name in zip(ordered, names, strict=True)
        ),
        undo=(do.RemovePackages(manager=tool.name, names=names),),
        done_when=done.packages(tool, [Package(name=name, pin=pick.version) for name in names]),
        phase=component(pick.component).phase,
        sources=ctx.addresses(*rows),
    )


PLANNER = Local()
