"""The CUDA toolkit on Windows: from the vendor's zip archives, one per part, or from its installer program."""

from gpustack.model import actions as do
from gpustack.model.facts import Archive
from gpustack.model.resolution import Pick
from gpustack.plan.context import Context
from gpustack.plan.downloads import reason_of
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import windows as win
from gpustack.plan.methods.zip_parts import fetch, marker_of, path_of, staging_of
from gpustack.versions import version

_STUDIO = "visual_studio_integration"


def release_of(cuda: str) -> tuple[int, int]:
    """The major and minor number of a toolkit version."""
    major, minor = (*version(cuda).numbers, 0)[:2]
    return major, minor


def prefix_of(cuda: str) -> str:
    """The folder of a toolkit release: one per major.minor, as in the vendor's installer."""
    major, minor = release_of(cuda)
    return rf"{win.TOOLKITS}\v{major}.{minor}"


def drafts(ctx: Context, pick: Pick, rows: tuple[Archive, ...]) -> list[Draft]:
    """The steps that install a toolkit."""
    if rows[0].method == "exe":
        return _by_installer(ctx, pick, rows[0])
    prefix = prefix_of(pick.version)
    folder = _folder(pick, prefix)
    downloads = [fetch(ctx, pick, row, "toolkit") for row in rows]
    unpacked = [
        _unpack(ctx, pick, row, prefix, after=(folder.key, download.key))
        for row, download in zip(rows, downloads, strict=True)
    ]
    after = tuple(one.key for one in unpacked)
    found = [folder, *downloads, *unpacked, _environment(pick, prefix, after)]
    studio = next((row for row in rows if row.part == _STUDIO), None)
    return [*found, _studio(ctx, prefix, studio)] if studio else found


def environment_commands(cuda: str) -> tuple[do.AnyWindowsAction, ...]:
    """The commands that make builds and programs find a toolkit."""
    prefix = prefix_of(cuda)
    major, minor = release_of(cuda)
    return (
        do.SetVariable(name="CUDA_PATH", value=prefix),
        do.SetVariable(name=f"CUDA_PATH_V{major}_{minor}", value=prefix),
        do.AddPath(folder=rf"{prefix}\libnvvp", if_present=True),
        do.AddPath(folder=rf"{prefix}\bin\x64", if_present=True),
        do.AddPath(folder=rf"{prefix}\bin"),
    )


def environment_undo(cuda: str) -> tuple[do.AnyWindowsAction, ...]:
    """The commands that revert ``environment_commands``."""
    prefix = prefix_of(cuda)
    major, minor = release_of(cuda)
    return (
        do.UndoPath(folder=rf"{prefix}\bin"),
        do.UndoPath(folder=rf"{prefix}\bin\x64"),
        do.UndoPath(folder=rf"{prefix}\libnvvp"),
        do.RestoreVariable(name=f"CUDA_PATH_V{major}_{minor}"),
        do.RestoreVariable(name="CUDA_PATH"),
    )


def _folder(pick: Pick, prefix: str) -> Draft:
    marker = marker_of(prefix, f"cuda-{pick.version}")
    aside = f"{prefix}.before-{win.safe_name(pick.version)}"
    return draft(
        "folder:cuda",
        component="cuda",
        kind="run",
        title=f"make {prefix}, moving an older toolkit aside",
        why=f"files of two releases in one folder break builds; the older one is kept as {aside} for a rollback",
        actions=(
            do.RenameFolder(path=prefix, new=aside),
            do.MakeFolder(path=rf"{prefix}\.gpustack"),
            do.LeaveMark(path=marker),
        ),
        undo=(do.RemoveFiles(pattern=prefix), do.RenameFolder(path=aside, new=prefix)),
        done_when=f"path {marker}",
        phase="toolkit",
    )


def _unpack(ctx: Context, pick: Pick, row: Archive, prefix: str, *, after: tuple[str, ...]) -> Draft:
    staging, marker = staging_of(row), marker_of(prefix, row.file)
    return draft(
        f"unpack:{row.file}",
        after=after,
        component="cuda",
        kind="extract",
        title=f"unpack {row.file} into {prefix}",
        why=f"{reason_of(pick)}; without the archive's own top folder",
        actions=(
            do.RemoveFiles(pattern=staging),
            do.ExpandArchive(archive=path_of(pick, row), folder=staging),
            do.CopyFiles(pattern=rf"{staging}\*\*", folder=prefix),
            do.RemoveFiles(pattern=staging),
            do.LeaveMark(path=marker),
        ),
        undo_note="its files go with the folder of the toolkit",
        done_when=f"path {marker}",
        phase="toolkit",
        sources=ctx.addresses(row),
    )


def _environment(pick: Pick, prefix: str, after: tuple[str, ...]) -> Draft:
    major, minor = release_of(pick.version)
    return draft(
        "install:cuda",
        after=after,
        component="cuda",
        kind="set-environment",
        title=f"set CUDA_PATH, CUDA_PATH_V{major}_{minor} and PATH of the machine to {prefix}",
        why="builds look for the toolkit by CUDA_PATH, Windows for its DLLs by PATH (those of CUDA 13 in bin\\x64); "
        "programs see the change when they restart",
        actions=environment_commands(pick.version),
        undo=environment_undo(pick.version),
        phase="toolkit",
    )


def _studio(ctx: Context, prefix: str, row: Archive) -> Draft:
    return draft(
        "studio:cuda",
        after=("install:cuda",),
        component="cuda",
        kind="note",
        title="for CUDA projects in Visual Studio, copy its build rules by hand",
        why=rf"the MSBuildExtensions folder below {prefix}\{_STUDIO} belongs into BuildCustomizations of each Visual "
        "Studio; its path depends on the edition, and builds with CMake and Ninja do not require it",
        needs_root=False,
        undo_note="nothing is changed",
        phase="toolkit",
        sources=ctx.addresses(row),
    )


def _by_installer(ctx: Context, pick: Pick, row: Archive) -> list[Draft]:
    download = fetch(ctx, pick, row, "toolkit")
    prefix = prefix_of(pick.version)
    run = draft(
        "install:cuda",
        after=(download.key,),
        component="cuda",
        kind="manual",
        title=f"run {row.file}, as Custom, without its display driver where yours is newer",
        why=f"the vendor has no zip archives of CUDA {pick.version}; its installer, run silently, also replaces the "
        f"display driver, so choose by hand; it creates {prefix} and sets CUDA_PATH and PATH",
        actions=(do.ByHand(commands=((path_of(pick, row),),)),),
        undo_note="Windows lists what the installer installed under Installed apps",
        done_when=rf"path {prefix}\bin\nvcc.exe",
        phase="toolkit",
        sources=ctx.addresses(row),
    )
    return [download, run]
