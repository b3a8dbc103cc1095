"""The sources of a component: its archives, its tags, its repository and their signers."""

from msgspec import Struct
from msgspec.structs import replace

from gpustack.model.facts import Archive
from gpustack.model.resolution import Pick
from gpustack.plan.context import Context
from gpustack.plan.preparation import SUBJECT

TAR_SWITCHES = ("--strip-components=1", "--no-same-owner", "--no-same-permissions")
"""How a source archive is unpacked: into the named folder, ignoring owners and permissions in it."""


class Tagged(Struct, frozen=True, kw_only=True):
    """The columns of a release that identify it in its repository."""

    version: str
    tag: str = ""
    commit: str = ""
    src: tuple[str, ...] = ()


class Remote(Struct, frozen=True, kw_only=True):
    """The origin of a clone."""

    url: str
    role: str = ""
    src: tuple[str, ...] = ()


class Signer(Struct, frozen=True, kw_only=True):
    """The key that signs the archives of a project."""

    signs: str
    fingerprint: str
    url: str = ""
    src: tuple[str, ...] = ()


class SourcePlace(Struct, frozen=True, kw_only=True):
    """The address of a project's release archives, with {version} for the release."""

    component: str
    url: str
    src: tuple[str, ...] = ()


def archives(ctx: Context, pick: Pick) -> list[Archive]:
    """The release archives that were seen, else the one at the address pattern of the project."""
    rows = [row for row in ctx.matrix.archives(pick.component) if row.version == pick.version]
    places = ctx.matrix.rows(SUBJECT, "source_archives", SourcePlace)
    place = next((one for one in places if one.component == pick.component), None)
    if place is None:
        return [row for row in rows if row.url]
    url = place.url.replace("{version}", pick.version)
    file = url.rpartition("/")[2]
    if not rows:
        rows = [Archive(version=pick.version, platform="source", file=file, method="source", src=place.src)]
    return [row if row.url else replace(row, url=url) for row in rows if row.url or row.file == file]


def tag_of(ctx: Context, pick: Pick) -> Tagged | None:
    """The tag of a release, if the facts know its commit."""
    releases = ctx.matrix.rows(pick.component, "releases", Tagged)
    return next((row for row in releases if row.version == pick.version and row.tag and row.commit), None)


def remote_of(ctx: Context, pick: Pick) -> Remote:
    """The repository to clone a component from: a mirror if there is one."""
    remotes = ctx.matrix.rows(pick.component, "git", Remote)
    return next((one for one in remotes if one.role == "mirror"), None) or next(iter(remotes))
