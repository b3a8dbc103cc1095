"""Adding a package repository: its key verified first, the host's entries merged, nothing duplicated."""

import re

from msgspec import Struct
from msgspec.structs import replace

from gpustack.errors import UnsupportedError
from gpustack.model import actions as do
from gpustack.model.actions import Package
from gpustack.model.architectures import debian_name
from gpustack.model.host import RepositoryEntry
from gpustack.model.places import Repository
from gpustack.model.resolution import Pick
from gpustack.model.steps import Artifact, FileWrite, PackageSource
from gpustack.plan import done
from gpustack.plan.apt_pin import apt_pin, preferences
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import manager
from gpustack.plan.managers.base import CACHE, Manager, Place
from gpustack.plan.preparation import common_tools
from gpustack.plan.signing import KeyExtra, check_key, download_key, key_of

_FOLDERS = re.compile(r"/etc/(apt|yum\.repos\.d|zypp/repos\.d)/[A-Za-z0-9_.+@/-]+")
_ADDRESS = re.compile(r"[a-z]+://(?:[A-Za-z0-9_./:-]|\$(?:\w+|\{\w+\}|\(\w+\)))+")
"""$(ARCH) stands in the container toolkit's own list, for apt to replace; others were left by a shell."""
_KEYRINGS = ("/usr/share/keyrings/", "/etc/apt/keyrings/", "/etc/apt/cloud-init.gpg.d/")
_GREP = ("grep", "--recursive", "--quiet", "--no-messages", "--fixed-strings", "--")


class RepositoryExtra(Struct, frozen=True, kw_only=True):
    """The columns of a repository that only this module reads."""

    repo: str
    family: str
    local_file: str = ""
    local_keyring: str = ""
    gpgcheck: bool = True


def component_repository(ctx: Context, pick: Pick, row: Repository) -> list[Draft]:
    """The steps that add the repository ``row`` of a component; the last one refreshes its index.

    Raises UnsupportedError if its packages could not be verified.
    """
    tool = manager(ctx.system.family)
    place = _place(ctx, tool, row, pick.component)
    existing, foreign = _entries(ctx, place)
    drafts = [_disable(ctx, tool, entry, place) for entry in foreign if _is_safe(ctx, entry)]
    drafts += [
        _disable(ctx, tool, entry, place)
        for entry in ctx.host.repositories
        if entry.enabled and entry.fault and entry not in (*existing, *foreign) and _is_safe(ctx, entry)
    ]
    good = next((entry for entry in existing if not entry.fault and _is_as_planned(entry, tool)), None)
    target = tool.repository_file(place).path
    drafts += [
        _disable(ctx, tool, entry, place)
        for entry in existing
        if entry != good and (good or entry.fault or entry.path != target) and _is_safe(ctx, entry)
    ]
    drafts += [_reuse(ctx, place, good)] if good else _add(ctx, tool, place)
    drafts.append(_refresh(ctx, tool, place, after=tuple(one.key for one in drafts)))
    return drafts


def _place(ctx: Context, tool: Manager, row: Repository, component: str) -> Place:
    extras = ctx.matrix.everywhere("repositories", RepositoryExtra)
    extra = next(
        (one for one in extras if (one.repo, one.family) == (row.repo, row.family)),
        RepositoryExtra(repo=row.repo, family=row.family),
    )
    key = ctx.matrix.keys.get(row.key)
    key_extra = {one.id: one for one in ctx.matrix.everywhere("keys", KeyExtra)}.get(row.key)
    own = row.repo == component
    short = component if own else "cuda"
    local = (extra.local_file or row.repo_file).rpartition("/")[2].rpartition(".")[0]
    section = f"{short}-{row.repo}-{row.arch}"
    url = row.url.replace("$(ARCH)", debian_name(ctx.arch, ctx.arch))
    place = Place(
        id="cuda-cross" if row.arch.startswith("cross-") else short,
        title=f"NVIDIA repository {row.repo}" + ("" if own else f"/{row.arch}"),
        repository=row,
        file=local or (section.replace("_", "-") if tool.name == "apt" else f"{short}-{row.repo}"),
        section=local if own and local else section,
        url=url.rstrip("/") + "/" if tool.name == "apt" else url,
        key=key,
        key_url=(key_extra.url if key_extra and key_extra.url else f"{url.rstrip('/')}/{key.file}") if key else "",
        signed="packages" if extra.gpgcheck else "metadata",
    )
    return replace(place, keyring=extra.local_keyring or tool.key_path(place))


def _add(ctx: Context, tool: Manager, place: Place) -> list[Draft]:
    row, key = place.repository, place.key
    if tool.name == "apt" and row.keyring and (row.keyring_sha256 or (key and key.status == "retired")):
        return _keyring_package(ctx, tool, place)
    if key is None:
        msg = f"the facts know no signing key for NVIDIA's repository {row.repo}: so its packages cannot be checked"
        raise UnsupportedError(
            msg, code="no-signing-key", hint="other methods are tar, runfile, pip and container (`--method`)"
        )
    if key.status == "retired":
        msg = f"NVIDIA's repository folder {row.repo} is signed only by the key {key.id}, which was withdrawn"
        raise UnsupportedError(
            msg,
            code="signing-key-withdrawn",
            hint="a newer release of the system, or --method tar, runfile or container",
        )
    drafts = [*_tools(ctx, tool), download_key(ctx, place), check_key(ctx, tool, place)]
    if tool.name == "apt" and place.id == "cuda":
        drafts.append(apt_pin(ctx))
    file = tool.repository_file(place)
    drafts.append(
        draft(
            f"repository:{place.id}",
            after=[one.key for one in drafts],
            component="",
            kind="add-repository",
            title=f"add the {place.title}",
            why=_why_checked(place),
            files=(file,),
            undo=(do.Remove(paths=(file.path,)),),
            phase="repositories",
            sources=ctx.addresses(row),
            repository=_as_data(ctx, place),
        )
    )
    return drafts


def _why_checked(place: Place) -> str:
    key = key_of(place)
    if place.signed == "packages":
        return f"packages come from {place.url}, each checked against the key {key.id}"
    return (
        f"packages come from {place.url}; the publisher signs the metadata with the key {key.id}, and its checksums "
        "cover every package"
    )


def _tools(ctx: Context, tool: Manager) -> list[Draft]:
    return common_tools(ctx, "tools", tool.tools, why="they download and check the keys of package repositories")


def _keyring_package(ctx: Context, tool: Manager, place: Place) -> list[Draft]:
    """The vendor's cuda-keyring package, with source list, key and preferences."""
    row, key = place.repository, place.key
    path = f"{CACHE}/{row.repo}-{row.arch}/{row.keyring.rpartition('/')[2]}"
    shown = f"key {key.id}" + (f", fingerprint {key.fingerprint}" if key.fingerprint else "") if key else "its key"
    if row.keyring_sha256:
        trust = "its sha256 is pinned here"
    else:
        trust = "no sha256 is published; it is trusted because it comes over https from NVIDIA's own host"
        ctx.warn(f"the keyring package of {row.repo}/{row.arch} has no published sha256: {trust}")
    fetch = draft(
        f"keyring-file:{place.id}",
        after=["tools"],
        component="",
        kind="download",
        title=f"download {path.rpartition('/')[2]}",
        why=f"the package with the repository's {shown if not key or key.status == 'current' else 'key'}; {trust}",
        artifacts=(Artifact(url=row.keyring, path=path, sha256=row.keyring_sha256),),
        undo=(do.Remove(paths=(path,)),),
        done_when=f"file {path} {row.keyring_sha256}" if row.keyring_sha256 else f"path {path}",
        phase="repositories",
        sources=ctx.addresses(row, key),
    )
    install = draft(
        f"repository:{place.id}",
        after=["tools", f"keyring-file:{place.id}"],
        component="",
        kind="add-repository",
        title=f"add the {place.title}",
        why="cuda-keyring contains the source list, its signing key, and the preference for these packages",
        actions=(do.InstallFile(manager=tool.name, path=path, name="cuda-keyring"),),
        undo=(do.RemovePackages(manager=tool.name, names=("cuda-keyring",)),),
        # Each folder has a package of that name and version: the address in the source list distinguishes them.
        done_when=done.every(
            done.packages(tool, [Package(name="cuda-keyring", pin=path.rpartition("/")[2].split("_")[1])]),
            done.succeeds(*_GREP, place.url, "/etc/apt/sources.list.d"),
        ),
        phase="repositories",
        sources=ctx.addresses(row),
        repository=_as_data(ctx, place, preferences=preferences(ctx)),
    )
    return [*_tools(ctx, tool), fetch, install]


def _as_data(ctx: Context, place: Place, preferences: FileWrite | None = None) -> PackageSource:
    key = place.key
    return PackageSource(
        name=place.id,
        file=place.file,
        url=place.url,
        keyring=place.keyring,
        arch=debian_name(place.repository.arch) if ctx.system.family == "apt" else "",
        fingerprint=key.fingerprint if key else "",
        # A key from the facts is used only by its full fingerprint, and never a withdrawn one.
        key=key.armoured if key and key.fingerprint and key.status == "current" else "",
        preferences=preferences,
    )


def _refresh(ctx: Context, tool: Manager, place: Place, *, after: tuple[str, ...]) -> Draft:
    return draft(
        f"index:{place.id}",
        after=after,
        component="",
        kind="refresh-index",
        title=f"read the package index of the {place.title}",
        why="the packages below are found through it",
        actions=(do.RefreshIndex(manager=tool.name, section=place.section),),
        undo_note="an index has nothing to undo",
        phase="repositories",
        sources=ctx.addresses(place.repository),
    )


def _reuse(ctx: Context, place: Place, entry: RepositoryEntry) -> Draft:
    return draft(
        f"repository:{place.id}",
        component="",
        kind="note",
        title=f"the {place.title} is already set up",
        why=f"{entry.path} names it with its key, so it is used unchanged and not added again",
        needs_root=False,
        phase="repositories",
        sources=ctx.addresses(place.repository),
    )


def _disable(ctx: Context, tool: Manager, entry: RepositoryEntry, place: Place) -> Draft:
    same = _bare(entry.url) == _bare(place.url)
    if entry.fault:
        why = f"the package manager fails with it: {entry.fault}"
    elif same:
        why = "a second entry for the same address with another key setting makes the package manager fail"
    else:
        why = f"it is for a system other than {place.repository.repo}, and its packages would be mixed in"
    return draft(
        f"disable:{entry.path}:{_bare(entry.url)}",
        component="",
        kind="run",
        title=f"disable the entry for {_bare(entry.url)} in {entry.path}",
        why=why,
        actions=(do.DisableRepository(manager=tool.name, path=entry.path, url=entry.url),),
        undo=(do.EnableRepository(manager=tool.name, path=entry.path, url=entry.url),),
        done_when=tool.is_disabled(entry),
        # First of all: with two such entries, or one without a key, the package manager does nothing at all.
        phase="preflight",
        sources=ctx.addresses(ctx.matrix.conflicts.get("signed_by_conflict") if same else None),
    )


def _entries(ctx: Context, place: Place) -> tuple[list[RepositoryEntry], list[RepositoryEntry]]:
    """The host's enabled entries for this address, and NVIDIA's entries for another system."""
    deb_arch = debian_name(ctx.arch, ctx.arch)
    enabled = [entry for entry in ctx.host.repositories if entry.enabled]
    same = [entry for entry in enabled if _bare(entry.url.replace("$(ARCH)", deb_arch)) == _bare(place.url)]
    if place.id != "cuda":
        return same, []
    parts = ("/compute/cuda/repos/", "/compute/machine-learning/repos/")
    foreign = [
        entry
        for entry in enabled
        if entry not in same and "cross-linux" not in entry.url and any(part in entry.url for part in parts)
    ]
    return same, foreign


def _is_as_planned(entry: RepositoryEntry, tool: Manager) -> bool:
    """Whether an entry of the host equals that of the plan: over https, with its own key."""
    if not entry.url.startswith("https://") or not entry.signed_by:
        return False
    return tool.name == "apt" and entry.signed_by.startswith(_KEYRINGS)


def _is_safe(ctx: Context, entry: RepositoryEntry) -> bool:
    """Whether the entry's file and address may appear in a command: anything odd is left to the user."""
    plain = _FOLDERS.fullmatch(entry.path) and ".." not in entry.path and _ADDRESS.fullmatch(entry.url)
    if not plain:
        ctx.warn(f"the repository entry {entry.url!r} in {entry.path!r} must be disabled by hand")
    return bool(plain)


def _bare(url: str) -> str:
    return url.partition("://")[2].rstrip("/")
