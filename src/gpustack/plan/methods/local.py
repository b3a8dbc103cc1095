"""Installers that are downloaded: single packages, or a package that brings a repository onto the host's own disk."""

from __future__ import annotations

from gpustack.errors import UnsupportedError
from gpustack.model.facts import Archive, PackageSet
from gpustack.model.resolution import Pick
from gpustack.plan.components import component
from gpustack.plan.context import Context
from gpustack.plan.downloads import archive_tools, fetch, path_of, reason_of
from gpustack.plan.draft import Draft, draft
from gpustack.plan.lookup import archives_for, package_sets
from gpustack.plan.managers import manager
from gpustack.plan.managers.base import Manager
from gpustack.plan.methods.base import MethodPlanner
from gpustack.plan.methods.network import packages_of
from gpustack.plan.preparation import enable

_SUBJECTS = {"cuda": "cuda-installers", "cudnn": "cudnn-archives", "tensorrt": "tensorrt-archives", "nccl": "nccl"}


class Local(MethodPlanner):
    """Nothing of NVIDIA's is fetched but the files named in the plan: what an air-gapped host can carry over."""

    def drafts(self, ctx: Context, pick: Pick) -> list[Draft]:
        part = component(pick.component)
        tool = manager(ctx.system.family)
        rows = _files(ctx, pick)
        sets = _sets(ctx, pick)
        before = [*archive_tools(ctx), *part.before(ctx, pick)]
        before += enable(ctx, ["cuda"]) if pick.component == "cuda" else []
        downloads = [fetch(ctx, pick, row, part.phase) for row in rows]
        keys = tuple(one.key for one in (*before, *downloads))
        if _is_repository(rows[0]):
            steps = _by_repository(ctx, tool, pick, rows[0], sets, after=keys)
        else:
            steps = [_by_packages(ctx, tool, pick, rows, sets, after=keys)]
        return [*before, *downloads, *steps, *part.after(ctx, pick, (f"install:{pick.component}",))]


def _files(ctx: Context, pick: Pick) -> tuple[Archive, ...]:
    cuda = None if pick.component == "cuda" else ctx.version("cuda")
    found = archives_for(
        ctx.matrix.archives(_SUBJECTS.get(pick.component, "")),
        version=pick.version,
        method="local",
        platforms=ctx.platforms,
        cuda=cuda,
    )
    rows = tuple(row for row in found if row.distro in {ctx.system.repo, ""})
    repositories = tuple(row for row in rows if _is_repository(row))
    rows = repositories[:1] or tuple(row for row in rows if "samples" not in row.file)
    if not rows or not all(row.url for row in rows):
        where = f"{ctx.system.name or ctx.system.repo} on {ctx.arch}"
        msg = f"the facts know no installer of {pick.component} {pick.version} for {where} that can be downloaded"
        logins = [row.note for row in rows if row.note]
        other = "another version, or another method, may have an offer"
        raise UnsupportedError(msg, hint=logins[0] if logins else other)
    return rows


def _sets(ctx: Context, pick: Pick) -> tuple[PackageSet, ...]:
    return package_sets(
        ctx.matrix.packages(pick.component),
        component=pick.component,
        version=pick.version,
        method="local",
        family=ctx.system.family,
        repo=ctx.system.repo,
        arch=ctx.arch_folders,
        cuda=ctx.version("cuda"),
        flavour=pick.flavour,
    )[:1]


def _is_repository(row: Archive) -> bool:
    return "repo" in row.file.partition("_")[0]


def _by_repository(  # noqa: PLR0913 (each is a fact of the steps)
    ctx: Context, tool: Manager, pick: Pick, row: Archive, sets: tuple[PackageSet, ...], *, after: tuple[str, ...]
) -> list[Draft]:
    if not sets:
        msg = f"the facts name no packages of {pick.component} {pick.version} in a local repository"
        raise UnsupportedError(msg, hint=f"--method {pick.component}=network, or tar")
    phase = component(pick.component).phase
    name = row.file.partition("_")[0].removesuffix(".rpm")
    folder = f"/var/{name}"
    commands = [tool.install_file(path_of(pick, row))]
    if tool.name == "apt":
        # The package holds its own key; apt believes it once it lies among the keyrings.
        keyring = ("find", folder, "-name", "*-keyring.gpg", "-exec", "cp", "--", "{}", "/usr/share/keyrings/", ";")
        commands.append(keyring)
    add = draft(
        f"repository:{pick.component}-local",
        after=after,
        component=pick.component,
        kind="add-repository",
        title=f"add the repository in {row.file}",
        why=f"it holds the packages of {pick.component} {pick.version} in {folder}: nothing more is fetched for them",
        commands=(*commands, *tool.refresh()),
        packages=(name,),
        undo=(tool.remove([name]),),
        phase=phase,
        sources=ctx.addresses(row),
    )
    packages = packages_of(pick, sets)
    install = draft(
        f"install:{pick.component}",
        after=(*after, add.key),
        component=pick.component,
        kind="install-packages",
        title=f"install {pick.component} {pick.version}",
        why=reason_of(pick),
        commands=(tool.install(packages, downgrade=pick.state == "downgrade"),),
        packages=tuple(tool.word(one) for one in packages),
        undo=(tool.remove([one.name for one in packages]),),
        done_when=f"package {packages[0].name} {pick.version}",
        phase=phase,
        sources=ctx.addresses(*sets),
    )
    return [add, install]


def _by_packages(  # noqa: PLR0913 (each is a fact of the step)
    ctx: Context,
    tool: Manager,
    pick: Pick,
    rows: tuple[Archive, ...],
    sets: tuple[PackageSet, ...],
    *,
    after: tuple[str, ...],
) -> Draft:
    """Single packages, the library before its headers: each file is one command, in the order of their dependencies."""
    ordered = sorted(rows, key=lambda row: ("dev" in row.file, row.file))
    names = [row.file.partition("_")[0] for row in ordered]
    wanted = {name for row in sets for name in row.packages}
    missing = sorted(wanted - set(names)) if tool.name == "apt" else []
    if missing:
        ctx.warn(f"of {pick.component} {pick.version} these packages have no known file: {', '.join(missing)}")
    return draft(
        f"install:{pick.component}",
        after=after,
        component=pick.component,
        kind="install-packages",
        title=f"install {pick.component} {pick.version} from the downloaded packages",
        why=reason_of(pick),
        commands=tuple(tool.install_file(path_of(pick, row)) for row in ordered),
        packages=tuple(names),
        undo=(tool.remove(names),) if tool.name == "apt" else (),
        undo_note="" if tool.name == "apt" else f"remove the packages of {', '.join(names)}",
        done_when=f"package {names[0]} {pick.version}",
        phase=component(pick.component).phase,
        sources=ctx.addresses(*rows),
    )


PLANNER = Local()
