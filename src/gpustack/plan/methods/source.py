"""Builds from source: nv-codec-headers by tag and commit, FFmpeg with the flags for toolkit and GPU."""

from gpustack.errors import UnsupportedError
from gpustack.model import actions as do
from gpustack.model.actions import AnyAction
from gpustack.model.facts import Archive
from gpustack.model.resolution import Pick
from gpustack.model.steps import Artifact
from gpustack.plan import done
from gpustack.plan.commands import commands_of
from gpustack.plan.components.cuda import prefix_of
from gpustack.plan.context import Context
from gpustack.plan.downloads import archive_tools, fetch, path_of, reason_of
from gpustack.plan.draft import Draft, draft, sha256_of
from gpustack.plan.managers import manager
from gpustack.plan.managers.base import CACHE
from gpustack.plan.methods.base import MethodPlanner
from gpustack.plan.methods.ffmpeg_flags import configure_words
from gpustack.plan.methods.source_rows import Signer, Tagged, archives, remote_of, tag_of
from gpustack.plan.preparation import enable, family_packages, install_tools
from gpustack.versions import is_within

SOURCES = "/usr/local/src"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PACKAGES = "PKG_CONFIG_PATH=/usr/local/lib/pkgconfig"
HEADERS = ("/usr/local/include/ffnvcodec", "/usr/local/lib/pkgconfig/ffnvcodec.pc")
"""The files that the headers install below /usr/local."""


class Source(MethodPlanner):
    """Sources are pinned by checksum, signature or commit; never the head of a branch."""

    def drafts(self, ctx: Context, pick: Pick) -> list[Draft]:
        if ctx.system.family == "windows":
            from gpustack.plan.methods import source_windows  # noqa: PLC0415 (only plans for Windows need it)

            return source_windows.drafts(ctx, pick)
        folder = f"{SOURCES}/{pick.component}-{pick.version}"
        tools = [*enable(ctx, ["cuda"]), *_build_tools(ctx, pick)]
        sources = _sources(ctx, pick, folder)
        after = tuple(one.key for one in (*tools, *sources))
        if pick.component == "nv-codec-headers":
            return [*tools, *sources, _install_headers(ctx, pick, folder, after)]
        if pick.component == "ffmpeg":
            return [*tools, *sources, *_build_ffmpeg(ctx, pick, folder, after)]
        msg = f"{pick.component} is not built from source"
        raise UnsupportedError(msg, code="method-unsupported", hint=f"--method {pick.component}=network, or another")


def _build_tools(ctx: Context, pick: Pick) -> list[Draft]:
    row = family_packages(ctx, "build_tools", pick.component)
    if row is None:
        msg = f"what building {pick.component} requires is not known for {ctx.system.name or ctx.host.os.spelled}"
        raise UnsupportedError(
            msg, code="build-unsupported", hint="systems with apt, dnf, yum, tdnf or zypper can build it"
        )
    tools = install_tools(
        ctx,
        f"build-tools:{pick.component}",
        row.packages,
        after=["archive-tools", "index:system"],
        component=pick.component,
        why=f"building {pick.component} needs them",
        sources=ctx.addresses(row),
    )
    return [*archive_tools(ctx), tools]


def _sources(ctx: Context, pick: Pick, folder: str) -> list[Draft]:
    found = archives(ctx, pick)
    tagged = tag_of(ctx, pick)
    summed = next((row for row in found if row.sha256), None)
    if summed is not None:
        return [fetch(ctx, pick, summed, "applications"), _unpack(ctx, pick, summed, folder, ())]
    if tagged is not None:
        return [_clone(ctx, pick, tagged, folder)]
    signer = next((row for row in ctx.matrix.rows(pick.component, "signing", Signer) if row.signs == "archives"), None)
    if found and signer is not None:
        return _signed(ctx, pick, found[0], signer, folder)
    msg = f"no checksum, commit or signature is known for the sources of {pick.component} {pick.version}"
    raise UnsupportedError(
        msg,
        code="unverifiable-source",
        hint="try another version; sources that cannot be checked are not built",
    )


def _unpack(ctx: Context, pick: Pick, row: Archive, folder: str, after: tuple[str, ...]) -> Draft:
    marker = done.marker(folder, row.file)
    return draft(
        f"unpack:{row.file}",
        after=(f"archive:{row.file}", *after),
        component=pick.component,
        kind="extract",
        title=f"unpack {row.file} into {folder}",
        why="it is built there",
        actions=(
            do.MakeFolders(paths=(folder,)),
            do.Unpack(archive=path_of(pick, row), folder=folder),
            do.Mark(path=marker),
        ),
        undo=(do.Remove(paths=(folder,), whole=True),),
        done_when=done.paths(marker),
        phase="applications",
        sources=ctx.addresses(row),
    )


def _clone(ctx: Context, pick: Pick, row: Tagged, folder: str) -> Draft:
    remote = remote_of(ctx, pick)
    return draft(
        f"clone:{pick.component}",
        after=[f"build-tools:{pick.component}"],
        component=pick.component,
        kind="download",
        title=f"clone {pick.component} at the tag {row.tag}",
        why=f"the checkout fails unless the tag is the commit {row.commit}",
        actions=(do.Clone(url=remote.url, tag=row.tag, commit=row.commit, folder=folder),),
        undo=(do.Remove(paths=(folder,), whole=True),),
        done_when=done.succeeds("git", "-C", folder, "diff", "--quiet", row.commit, "--"),
        phase="applications",
        sources=ctx.addresses(row, remote),
    )


def _signed(ctx: Context, pick: Pick, row: Archive, signer: Signer, folder: str) -> list[Draft]:
    """An archive without a published checksum, but with a signature of the project."""
    path = path_of(pick, row)
    key, ring = f"{CACHE}/keys/{pick.component}.asc", f"{CACHE}/keys/{pick.component}.gpg"
    signed = do.Look(argv=("gpgv", "--keyring", ring, f"{path}.asc", path))
    download = draft(
        f"archive:{row.file}",
        after=["archive-tools", "tools"],
        component=pick.component,
        kind="download",
        title=f"download {row.file} and check its signature",
        why=f"its checksum is not published; it must be signed by {signer.fingerprint}",
        artifacts=(
            Artifact(url=row.url, path=path, size=row.size),
            Artifact(url=f"{row.url}.asc", path=f"{path}.asc"),
            Artifact(url=signer.url, path=key, fingerprint=signer.fingerprint),
        ),
        actions=(
            do.TakeKey(source=key, wanted=signer.fingerprint, target=ring, home=f"{CACHE}/keys/{pick.component}-gnupg"),
            signed,
        ),
        undo=(do.Remove(paths=(path, f"{path}.asc")),),
        done_when=done.succeeds(*signed.argv),
        phase="applications",
        sources=ctx.addresses(row, signer),
    )
    tool = manager(ctx.system.family)
    tools = install_tools(
        ctx,
        f"signature-tools:{pick.component}",
        tool.signature_tools,
        after=["archive-tools"],
        component=pick.component,
        title="install GnuPG",
        why="it checks the signature of the sources",
    )
    return [tools, download, _unpack(ctx, pick, row, folder, (tools.key,))]


def _install_headers(ctx: Context, pick: Pick, folder: str, after: tuple[str, ...]) -> Draft:
    return draft(
        "install:nv-codec-headers",
        after=after,
        component="nv-codec-headers",
        kind="build",
        title=f"install nv-codec-headers {pick.version} below /usr/local",
        why=reason_of(pick),
        actions=(do.Make(folder=folder, words=("install", "PREFIX=/usr/local"), touches=HEADERS),),
        undo=(do.Make(folder=folder, words=("uninstall", "PREFIX=/usr/local"), touches=HEADERS),),
        done_when=done.succeeds("env", _PACKAGES, "pkg-config", f"--exact-version={pick.version}", "ffnvcodec"),
        phase="applications",
        sources=ctx.matrix.addresses(("nv-codec-headers/nvh",)),
    )


def _build_ffmpeg(ctx: Context, pick: Pick, folder: str, after: tuple[str, ...]) -> list[Draft]:
    prefix = f"/usr/local/ffmpeg-{pick.version}"
    cuda = ctx.version("cuda")
    path = f"{prefix_of(cuda)}/bin:{_PATH}" if cuda else _PATH
    environment = (f"PATH={path}", _PACKAGES)
    found = (
        (f"--extra-cflags=-I{prefix_of(cuda)}/include", f"--extra-ldflags=-L{prefix_of(cuda)}/lib64") if cuda else ()
    )
    words, reasons = configure_words(ctx, pick, found)
    actions: list[AnyAction] = []
    headers = ctx.version("nv-codec-headers")
    if headers and not is_within(pick.version, "<4.0"):
        exact = ("pkg-config", "--print-errors", f"--exact-version={headers}", "ffnvcodec")
        actions.append(do.Look(argv=exact, environment=environment))
    actions += [
        do.Configure(folder=folder, prefix=prefix, path=path, arguments=words),
        do.Make(folder=folder, path=path, parallel=True),
    ]
    # Another configuration of the same release is rebuilt.
    name = f"ffmpeg-{sha256_of(commands_of(actions))[:12]}"
    built, there = done.marker(folder, name), done.marker(prefix, name)
    actions.append(do.Mark(path=built))
    build = draft(
        "build:ffmpeg",
        after=(*after, "install:nv-codec-headers", "install:cuda"),
        component="ffmpeg",
        kind="build",
        title=f"configure and build FFmpeg {pick.version}",
        why="; ".join((reason_of(pick), *reasons, "all processors build, through ccache where it is installed")),
        actions=tuple(actions),
        undo=(do.Remove(paths=(built,)), do.Make(folder=folder, words=("distclean",))),
        done_when=done.paths(built),
        phase="applications",
        sources=ctx.matrix.addresses(("ffmpeg/fftags", "ffmpeg/conf")),
    )
    names = ("ffmpeg", "ffprobe")
    links = [do.Link(path=f"/usr/local/bin/{name}", target=f"{prefix}/bin/{name}") for name in names]
    install = draft(
        "install:ffmpeg",
        after=["build:ffmpeg"],
        component="ffmpeg",
        kind="run",
        title=f"install FFmpeg below {prefix} and link it into /usr/local/bin",
        why="its own folder keeps it apart from the distribution's FFmpeg, and makes it easy to remove",
        actions=(do.Make(folder=folder, words=("install",), touches=(prefix,)), *links, do.Mark(path=there)),
        undo=(
            do.Remove(paths=tuple(link.path for link in links)),
            do.Remove(paths=(prefix,), whole=True),
        ),
        done_when=done.every(*(done.link(one.path, one.target) for one in links), done.paths(there)),
        phase="applications",
    )
    return [build, install]


PLANNER = Source()
