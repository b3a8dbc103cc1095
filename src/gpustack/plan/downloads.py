"""Downloads of the vendor's files: pinned by published checksums, with a warning without one."""

from __future__ import annotations

from collections.abc import Iterable

from gpustack.model import actions as do
from gpustack.model.facts import Archive
from gpustack.model.resolution import Pick
from gpustack.model.steps import Artifact, FileWrite
from gpustack.plan import done
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import NAMES, manager
from gpustack.plan.managers.base import CACHE
from gpustack.plan.preparation import common_tools


def path_of(pick: Pick, row: Archive) -> str:
    """The path of a downloaded file."""
    return f"{CACHE}/{row.component or pick.component}-{row.version}/{row.file}"


def fetch(ctx: Context, pick: Pick, row: Archive, phase: str) -> Draft:
    """The step that downloads and checks one file. Its key is ``archive:FILE``."""
    path = path_of(pick, row)
    files: tuple[FileWrite, ...] = ()
    actions: tuple[do.Look, ...] = ()
    there = "never"
    artifact = Artifact(url=row.url, path=path, sha256=row.sha256, size=row.size)
    if row.sha256:
        why = "pinned by its sha256"
        there = f"file {path} {row.sha256}"
    elif row.md5:
        why = "only its md5 is published: it detects a damaged file, and https proves the origin"
        files = (FileWrite(path=f"{path}.md5", content=f"{row.md5}  {path}\n"),)
        look = do.Look(argv=("md5sum", "--check", "--strict", "--", f"{path}.md5"))
        actions = (look,)
        there = done.every(done.files(files), done.succeeds(*look.argv))
    else:
        why = "no checksum is published: the file is trusted because of https"
    if row.login:
        ctx.warn(
            f"{row.url} asks for a developer login: where the download fails, fetch the file with a browser and plan "
            f"with --from {pick.component}=FILE"
        )
    if not row.sha256:
        ctx.warn(f"{row.file} has no published sha256; it is trusted because it comes from {_host_of(row.url)}")
    return draft(
        f"archive:{row.file}",
        after=["archive-tools", "archive-tools-zstd"],
        component=pick.component,
        kind="download",
        title=title_of(artifact, row.file),
        why=why,
        actions=actions,
        files=files,
        artifacts=(artifact,),
        undo=(do.Remove(paths=(path, *(file.path for file in files))),),
        done_when=there,
        phase=phase,
        sources=ctx.addresses(row),
    )


def title_of(artifact: Artifact, name: str) -> str:
    """What the step does to provide a file: a download, or a copy of what the user has downloaded."""
    return f"copy {name} from {artifact.own_path}" if artifact.own_path else f"download {name}"


def archive_tools(ctx: Context, files: Iterable[Archive] = ()) -> list[Draft]:
    """The step that installs what these downloads and archives require; none if the package manager is unknown."""
    if ctx.system.family not in NAMES:
        return []
    tool = manager(ctx.system.family)
    names = ["ca-certificates", "curl", "tar", "xz-utils"] if tool.name == "apt" else ["tar", "xz"]
    names += ["zstd"] if any(row.file.endswith(".zst") for row in files) else []
    key = "archive-tools" if "zstd" not in names else "archive-tools-zstd"
    return common_tools(ctx, key, names, why="they download and unpack the files below")


def unpacked_path(path: str) -> str:
    """The folder next to an archive into which it is unpacked."""
    return f"{path.partition('.tar')[0].removesuffix('.tgz')}.unpacked"


def reason_of(pick: Pick) -> str:
    """The first reason of a pick, for the ``why`` of its step."""
    return next((reason.text for reason in pick.reasons), "") or f"{pick.component} {pick.version} is in the stack"


def _host_of(url: str) -> str:
    return url.partition("://")[2].partition("/")[0]
