"""NVIDIA's .run files: for systems that no repository serves, and never beside packages of the same thing."""

from __future__ import annotations

from msgspec import Struct

from gpustack.errors import UnsupportedError
from gpustack.model.facts import Archive
from gpustack.model.resolution import Pick
from gpustack.plan.components import component
from gpustack.plan.context import Context
from gpustack.plan.downloads import archive_tools, fetch, path_of, reason_of
from gpustack.plan.draft import Draft, draft
from gpustack.plan.lookup import archives_for
from gpustack.plan.methods.base import MethodPlanner
from gpustack.plan.preparation import SUBJECT


class RunRelease(Struct, frozen=True, kw_only=True):
    """The columns of a driver release that pin its .run file."""

    version: str
    channel: tuple[str, ...] = ()
    run_x86_64_sha256: str = ""
    run_x86_64_size: int | None = None
    run_aarch64_sha256: str = ""
    run_aarch64_size: int | None = None
    src: tuple[str, ...] = ()


class RunPlace(Struct, frozen=True, kw_only=True):
    """Where the .run files of a list of drivers lie; {version} and {arch} stand for themselves."""

    channel: str
    url: str
    src: tuple[str, ...] = ()


class Runfile(MethodPlanner):
    """The toolkit, or the driver with its modules registered with dkms."""

    def drafts(self, ctx: Context, pick: Pick) -> list[Draft]:
        part = component(pick.component)
        row = _driver_file(ctx, pick) if pick.component == "driver" else _toolkit_file(ctx, pick)
        before = [*archive_tools(ctx), *part.before(ctx, pick)]
        download = fetch(ctx, pick, row, part.phase)
        path = path_of(pick, row)
        if pick.component == "driver":
            flavour = (f"--kernel-module-type={pick.flavour}",) if pick.flavour else ()
            command = ("sh", path, "--silent", "--dkms", *flavour)
            undo: tuple[tuple[str, ...], ...] = (("nvidia-uninstall", "--silent"),)
            note = ""
        else:
            command = ("sh", path, "--silent", "--toolkit")
            undo, note = (), "the cuda-uninstaller in the toolkit's bin folder removes it, and asks what"
        install = draft(
            f"install:{pick.component}",
            after=[one.key for one in (*before, download)],
            component=pick.component,
            kind="run",
            title=f"run {row.file}",
            why=f"{reason_of(pick)}; --silent accepts the licence"
            + ("" if pick.component == "driver" else ", --toolkit leaves the driver in the file alone"),
            commands=(command,),
            undo=undo,
            undo_note=note,
            phase=part.phase,
            sources=ctx.addresses(row),
        )
        return [*before, download, install, *part.after(ctx, pick, (install.key,))]


def _toolkit_file(ctx: Context, pick: Pick) -> Archive:
    rows = archives_for(
        ctx.matrix.archives("cuda-installers"),
        version=pick.version,
        method="runfile",
        platforms=ctx.platforms,
        cuda=None,
    )
    found = next((row for row in rows if row.url and (row.sha256 or row.md5)), None)
    if pick.component != "cuda" or found is None:
        what = f"{pick.component} {pick.version} for {ctx.platforms[0]}"
        msg = f"the facts know no .run file of {what} that can be checked"
        raise UnsupportedError(msg, hint="another version, or another method (`--method`), may have an offer")
    return found


def _driver_file(ctx: Context, pick: Pick) -> Archive:
    releases = ctx.matrix.rows("driver", "releases", RunRelease)
    release = next((row for row in releases if row.version == pick.version), None)
    x86 = ctx.arch == "x86_64"
    digest = (release.run_x86_64_sha256 if x86 else release.run_aarch64_sha256) if release else ""
    places = ctx.matrix.rows(SUBJECT, "driver_runfiles", RunPlace)
    place = next((one for one in places if release and one.channel in release.channel), None)
    if release is None or not digest or place is None:
        msg = f"the facts know no .run file of driver {pick.version} for {ctx.arch} that can be checked"
        raise UnsupportedError(msg, hint="another version, or --method driver=network, may have an offer")
    url = place.url.replace("{version}", pick.version).replace("{arch}", ctx.arch)
    return Archive(
        version=pick.version,
        platform=ctx.platforms[0],
        file=url.rpartition("/")[2],
        component="driver",
        method="runfile",
        url=url,
        sha256=digest,
        size=release.run_x86_64_size if x86 else release.run_aarch64_size,
        src=(*release.src, *place.src),
    )


PLANNER = Runfile()
