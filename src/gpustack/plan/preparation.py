"""What a system requires before NVIDIA's packages: further repositories and kernel headers, from the facts."""

import re
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gpustack.model import actions as do
from gpustack.model.actions import AnyAction, Package
from gpustack.plan import done
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import manager
from gpustack.plan.managers.rpm import switch_repository

SUBJECT = "preparation"
_WITH_ACCOUNT = frozenset({"subscription-manager", "SUSEConnect"})
"""Programs that contact the system's publisher with the account of the registered machine."""

_IS_ENABLED = 'dnf --quiet repolist --enabled | grep -q -F -e "$1"'
_FROM_CLOUD = (
    'id=$(dnf --quiet repolist --all | grep -o -E "^(rhui-)?$1([a-z0-9_]+-)?rhui-rpms" | head -n 1); '
    'if [ -n "$id" ]; then exec dnf config-manager "$2" "$id"; fi; shift 2; exec "$@"'
)
"""Switches the repository of a cloud's RHUI whose id begins like ``$1``, or runs the words from ``$3`` on."""

_RPM_ADDRESS = re.compile(r"https://.*/([a-z-]+)-(\d[^-/]*)-[^-/]+\.rpm")


class Starter(Struct, frozen=True, kw_only=True):
    """The service manager of systems without systemd."""

    systems: tuple[str, ...]
    starts: str
    src: tuple[str, ...] = ()


class Enable(Struct, frozen=True, kw_only=True):
    """A repository or package that a system requires first; ``enabled`` are prefixes of equivalent repository ids."""

    systems: tuple[str, ...]
    order: int
    title: str
    why: str
    needed_for: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    enabled: str = ""
    src: tuple[str, ...] = ()


class Initramfs(Struct, frozen=True, kw_only=True):
    """How a tool rebuilds the initramfs."""

    tool: str
    command: tuple[str, ...]
    src: tuple[str, ...] = ()


class SecureBoot(Struct, frozen=True, kw_only=True):
    """The path of the key that signs modules built on the host."""

    systems: tuple[str, ...]
    key: str = ""
    tools: tuple[str, ...] = ()
    action: str = ""
    src: tuple[str, ...] = ()


class FixCommand(Struct, frozen=True, kw_only=True):
    """One command that fixes a known bad state."""

    problem: str
    systems: tuple[str, ...]
    title: str
    command: tuple[str, ...]
    src: tuple[str, ...] = ()


class ConflictModule(Struct, frozen=True, kw_only=True):
    """A kernel module that can claim a GPU in place of nvidia's."""

    module: str
    lines: tuple[str, ...]
    src: tuple[str, ...] = ()


class FamilyPackages(Struct, frozen=True, kw_only=True):
    """Package names in a package family; ``component`` narrows them to the needs of one component."""

    family: str
    packages: tuple[str, ...]
    component: str = ""
    src: tuple[str, ...] = ()


class _HasSystems(Protocol):
    @property
    def systems(self) -> tuple[str, ...]: ...


Row = TypeVar("Row", bound=_HasSystems)


def rows_for(ctx: Context, rows: Iterable[Row], *, by_base: bool = True) -> tuple[Row, ...]:
    """The rows of the most specific name that lists the host's system."""
    found = tuple(rows)
    for name in _names(ctx, by_base=by_base):
        matching = tuple(row for row in found if name in row.systems)
        if matching:
            return matching
    return ()


def family_packages(ctx: Context, table: str, component: str = "") -> FamilyPackages | None:
    """The row of ``table`` for the host's package family, None if the facts have none."""
    rows = ctx.matrix.rows(SUBJECT, table, FamilyPackages)
    return next((row for row in rows if (row.family, row.component) == (ctx.system.family, component)), None)


def enable(ctx: Context, components: Iterable[str]) -> list[Draft]:
    """The steps that enable what the system's packages require, for these components."""
    wanted = set(components)
    rows = ctx.matrix.rows(SUBJECT, "enable", Enable)
    # A rebuild of RHEL has other names for these repositories, so the rows of its base do not apply.
    apt = ctx.system.family == "apt"
    found = [row for row in rows_for(ctx, rows, by_base=apt) if wanted.intersection(row.needed_for)]
    if not found and ctx.system.base.startswith("rhel") and ctx.system.family == "dnf":
        ctx.warn(
            f"the facts do not say which further repositories {ctx.system.name} needs (CodeReady Builder and EPEL on "
            "its kin): without dkms and its dependencies the driver cannot be installed"
        )
    drafts: list[Draft] = []
    for row in sorted(found, key=lambda row: row.order):
        drafts.append(_enable_step(ctx, _by_rhui(ctx, row), after=tuple(one.key for one in drafts)))
    if drafts and apt:
        drafts.append(refresh_system(ctx, after=tuple(one.key for one in drafts)))
    return drafts


def find_fixes(ctx: Context, problem: str) -> tuple[FixCommand, ...]:
    """The commands that fix a bad state on the host's system."""
    rows = ctx.matrix.rows(SUBJECT, "fixes", FixCommand)
    return rows_for(ctx, [row for row in rows if row.problem == problem])


def starter(ctx: Context) -> Starter | None:
    """The service manager of the host's system in place of systemd; None with systemd."""
    return next(iter(rows_for(ctx, ctx.matrix.rows(SUBJECT, "no_systemd", Starter))), None)


def _by_rhui(ctx: Context, row: Enable) -> Enable:
    """The row for an image of a cloud, whose own update infrastructure stands in for a subscription.

    A described host does not say whether it is one: its command looks when it runs.
    """
    if ctx.host.codeready and ctx.host.codeready.removeprefix("rhui-").startswith(row.enabled or " "):
        return replace(
            row,
            why="NVIDIA's packages depend on libraries that are there; this image has it from the update "
            "infrastructure of its cloud (RHUI), which needs no subscription",
            command=switch_repository(ctx.host.codeready, on=True),
            undo=switch_repository(ctx.host.codeready, on=False),
        )
    if ctx.host.described and row.command[:1] == ("subscription-manager",):
        by_id = ("sh", "-c", _FROM_CLOUD, "sh", row.enabled)
        return replace(
            row,
            why="NVIDIA's packages depend on libraries that are there. An image of Amazon, Azure or Google has it in "
            "the update infrastructure of its cloud (RHUI), others need a subscription",
            command=(*by_id, "--set-enabled", *row.command),
            undo=(*by_id, "--set-disabled", *row.undo),
        )
    return row


def _enable_step(ctx: Context, row: Enable, after: tuple[str, ...]) -> Draft:
    values = {"rpm_arch": ctx.arch, "version": ctx.host.os.version_id or ctx.system.version}
    tool = manager(ctx.system.family)
    named = _RPM_ADDRESS.fullmatch(row.packages[0]) if len(row.packages) == 1 else None
    undo: tuple[do.EnableSource, ...] = ()
    if row.packages:
        packages = tuple(Package(name=filled(name, values)) for name in row.packages)
        action: AnyAction = do.InstallPackages(manager=tool.name, packages=packages)
        note = "a repository package is harmless and stays"
        # yum fails if the package at an address is already installed.
        there = f"package {named[1]} {named[2]}" if named else done.packages(tool, packages)
    else:
        action = _source(row.command, values)
        undo = (_source(row.undo, values),) if row.undo else ()
        note = "" if undo else "the component stays enabled: other packages may need it by then"
        there = done.succeeds("sh", "-c", _IS_ENABLED, "sh", row.enabled) if row.enabled else "never"
    return draft(
        f"enable:{row.title}",
        after=after,
        component="",
        kind="install-packages" if row.packages else "run",
        title=row.title,
        why=row.why,
        actions=(action,),
        undo=undo,
        undo_note=note,
        done_when=there,
        phase="prerequisites",
        sources=ctx.addresses(row),
    )


def _source(command: tuple[str, ...], values: dict[str, str]) -> do.EnableSource:
    argv = tuple(filled(word, values) for word in command)
    return do.EnableSource(argv=argv, needs_account=not _WITH_ACCOUNT.isdisjoint(argv))


def refresh_system(ctx: Context, after: tuple[str, ...] = ()) -> Draft:
    """The step that refreshes the indexes of the system's own archives."""
    return draft(
        "index:system",
        after=after,
        component="",
        kind="refresh-index",
        title="read the package indexes of the system",
        why="the packages below are found through them",
        actions=(do.RefreshIndex(manager=manager(ctx.system.family).name),),
        undo_note="an index has nothing to undo",
        phase="prerequisites",
    )


def common_tools(ctx: Context, key: str, names: Sequence[str], *, why: str) -> list[Draft]:
    """The steps that install system tools for later steps; without an index apt knows no package."""
    tool = manager(ctx.system.family)
    index = [refresh_system(ctx)] if tool.name == "apt" else []
    note = "common tools stay" if len(names) > 1 else "a common tool, so it stays"
    return [*index, install_tools(ctx, key, names, why=why, after=[one.key for one in index], undo_note=note)]


def install_tools(  # noqa: PLR0913 (the differences between such steps; most are keywords)
    ctx: Context,
    key: str,
    names: Sequence[str],
    *,
    why: str,
    after: Iterable[str],
    component: str = "",
    title: str = "",
    undo_note: str = "common tools, so they stay",
    sources: tuple[str, ...] = (),
) -> Draft:
    """The step that installs packages of the system itself, which other programs may use and which stay."""
    tool = manager(ctx.system.family)
    return draft(
        key,
        after=after,
        component=component,
        kind="install-packages",
        title=title or f"install {', '.join(names)}",
        why=why,
        actions=(do.InstallPackages(manager=tool.name, packages=tuple(Package(name=name) for name in names)),),
        undo_note=undo_note,
        done_when=done.names(tool, names),
        phase="prerequisites",
        sources=sources,
    )


def filled(template: str, values: dict[str, str]) -> str:
    text = template
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


def _names(ctx: Context, *, by_base: bool) -> list[str]:
    """The names of the host's system from the most specific to its package family."""
    rows = [(ctx.system.id, ctx.host.os.version_id or ctx.system.version)]
    if by_base and ctx.base is not ctx.system:
        rows.append((ctx.base.id, ctx.base.version))
    names = []
    for name, version in rows:
        parts = version.split(".")
        names += [f"{name}{'.'.join(parts[:count])}" for count in range(len(parts), 0, -1)] + [name]
    return [*names, ctx.system.family]
