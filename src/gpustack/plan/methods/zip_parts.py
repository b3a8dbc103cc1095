"""Downloading and installing the vendor's zip archives on Windows, for every component of the method zip."""

from __future__ import annotations

from gpustack.model import actions as do
from gpustack.model.facts import Archive
from gpustack.model.resolution import Pick
from gpustack.model.steps import Artifact
from gpustack.plan.context import Context
from gpustack.plan.downloads import title_of
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import windows as win


def staging_of(row: Archive) -> str:
    """The folder in which an archive is unpacked before its files are moved.

    Its name is short: Windows PowerShell 5.1 cannot write paths of 260 characters, and archives repeat their own name.
    """
    build = f"_cuda{row.cuda}" if row.cuda else ""
    return rf"{win.UNPACKED}\{win.safe_name(f'{row.part}-{row.version}{build}')}"


def marker_of(prefix: str, name: str) -> str:
    """The file in a folder that says that a step has filled it: it disappears with the folder."""
    return rf"{prefix}\.gpustack\{win.safe_name(name)}"


def path_of(pick: Pick, row: Archive) -> str:
    """The path of a downloaded file."""
    return rf"{win.CACHE}\{win.safe_name(f'{pick.component}-{row.version}')}\{win.safe_name(row.file)}"


def fetch(ctx: Context, pick: Pick, row: Archive, phase: str) -> Draft:
    """The step that downloads and checks one file. Its key is ``archive:FILE``."""
    path = path_of(pick, row)
    actions: tuple[do.AnyWindowsAction, ...] = ()
    host = row.url.partition("://")[2].partition("/")[0]
    artifact = Artifact(url=row.url, path=path, sha256=row.sha256, size=row.size)
    if row.sha256:
        why = "pinned by its sha256"
        if host.endswith(".nvidia.com"):
            why += "; the vendor's server offers it without the login that the guides mention"
    elif row.md5:
        why = "only its md5 is published: it detects a damaged file, and https proves the origin"
        actions = (do.AssertSum(path=path, algorithm="MD5", digest=row.md5),)
    else:
        why = "no checksum is published: the file is trusted because of https"
    if not row.sha256:
        ctx.warn(f"{row.file} has no published sha256; it is trusted because it comes from {host}")
    return draft(
        f"archive:{row.file}",
        component=pick.component,
        kind="download",
        title=title_of(artifact, row.file),
        why=why,
        actions=actions,
        artifacts=(artifact,),
        undo=(do.RemoveFiles(pattern=path),),
        done_when=f"file {path} {row.sha256}" if row.sha256 else "never",
        phase=phase,
        sources=ctx.addresses(row),
    )
