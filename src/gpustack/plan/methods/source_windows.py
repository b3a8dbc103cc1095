r"""Building nv-codec-headers and FFmpeg on Windows: a private MSYS2 for configure and make, Visual C++ compiles.

Known problems of the guide decide the form: paths with blanks break FFmpeg's makefiles and the script that calls the
linker, so everything is built below C:\gpustack, which only administrators may write; results are kept elsewhere.
"""

from __future__ import annotations

from msgspec import Struct

from gpustack.errors import UnsupportedError
from gpustack.model import actions as do
from gpustack.model.facts import Archive
from gpustack.model.resolution import Pick
from gpustack.model.steps import Artifact, FileWrite
from gpustack.plan import done
from gpustack.plan.context import Context
from gpustack.plan.downloads import reason_of
from gpustack.plan.draft import Draft, draft, sha256_of
from gpustack.plan.managers import windows as win
from gpustack.plan.methods import source_windows_scripts as scripts
from gpustack.plan.methods.ffmpeg_flags import configure_words
from gpustack.plan.methods.source_rows import archives, remote_of, tag_of
from gpustack.plan.methods.zip_cuda import prefix_of
from gpustack.plan.methods.zip_parts import fetch, path_of
from gpustack.plan.preparation import SUBJECT, family_packages
from gpustack.versions import is_within

WORK = r"C:\gpustack"
MSYS = rf"{WORK}\msys64"
PROGRAMS = rf"{win.ROOT}\programs"
_SCRIPTS = rf"{WORK}\scripts"
_BASH = rf"{MSYS}\usr\bin\bash.exe"
_READY = rf"{win.STATE}\build-folder"
_ADMINISTRATORS, _SYSTEM, _USERS = "*S-1-5-32-544", "*S-1-5-18", "*S-1-5-32-545"


class Tool(Struct, frozen=True, kw_only=True):
    """A program that a build on Windows requires: an archive with its checksum, or the ``path`` of an installed one."""

    name: str
    file: str = ""
    url: str = ""
    sha256: str = ""
    path: str = ""
    src: tuple[str, ...] = ()


class Compiler(Struct, frozen=True, kw_only=True):
    """The Visual C++ that the nvcc of a toolkit supports, by _MSC_VER."""

    version: str
    msvc_min: str = ""
    msvc_below: str = ""


def drafts(ctx: Context, pick: Pick) -> list[Draft]:
    """The steps that build a component. Raises UnsupportedError for sources that cannot be verified."""
    if pick.component not in {"nv-codec-headers", "ffmpeg"}:
        msg = f"{pick.component} is not built from source"
        raise UnsupportedError(msg, code="method-unsupported", hint=f"--method {pick.component}=zip, or another")
    ctx.warn(
        "the recipe for building on Windows was put together from documentation and has not been run on Windows by "
        "gpustack's own tests: check what each step prints"
    )
    folder = rf"{WORK}\build\{win.safe_name(f'{pick.component}-{pick.version}')}"
    tools = [_work_folder(), *_msys(ctx), *_packages(ctx, pick)]
    sources = _sources(ctx, pick, folder)
    if pick.component == "nv-codec-headers":
        return [*tools, *sources, _headers(ctx, pick, folder, sources[-1].key)]
    return [_studio(ctx), *tools, *sources, *_ffmpeg(ctx, pick, folder, sources[-1].key)]


def _run(name: str, packages: tuple[str, ...] = ()) -> do.RunMsys:
    return do.RunMsys(bash=_BASH, script=scripts.mixed(rf"{_SCRIPTS}\{name}"), packages=packages)


def _file(name: str, content: str) -> FileWrite:
    return FileWrite(path=rf"{_SCRIPTS}\{name}", content=content)


def _marker(name: str) -> str:
    return rf"{WORK}\.gpustack\{win.safe_name(name)}"


def _work_folder() -> Draft:
    return draft(
        "folder:build",
        component="",
        kind="run",
        title=f"make {WORK}, which only administrators may write",
        why="FFmpeg's makefiles and MSYS2 accept no blanks in a path, which excludes Program Files; below C:\\ every "
        "user may create folders, so an existing one is moved aside and access is restricted",
        actions=(
            do.RenameFolder(path=WORK, new=f"{WORK}.before"),
            do.MakeFolder(path=WORK),
            do.RunProgram(
                argv=(
                    *("icacls.exe", WORK, "/inheritance:r", "/grant:r"),
                    *(f"{_ADMINISTRATORS}:(OI)(CI)F", f"{_SYSTEM}:(OI)(CI)F", f"{_USERS}:(OI)(CI)RX"),
                )
            ),
            do.RemoveFiles(pattern=rf"{WORK}\*"),
            do.MakeFolder(path=rf"{WORK}\.gpustack"),
            do.MakeFolder(path=win.STATE),
            do.LeaveMark(path=_READY),
        ),
        undo=(
            do.RemoveFiles(pattern=WORK),
            do.RemoveFiles(pattern=_READY),
            do.RenameFolder(path=f"{WORK}.before", new=WORK),
        ),
        done_when=f"path {_READY}",
        phase="prerequisites",
    )


def _tool(ctx: Context, name: str) -> Tool:
    return next(one for one in ctx.matrix.rows(SUBJECT, "windows_tools", Tool) if one.name == name)


def _msys(ctx: Context) -> list[Draft]:
    row = _tool(ctx, "msys2")
    path = rf"{win.CACHE}\{win.safe_name(row.file)}"
    marker = _marker(row.file)
    download = draft(
        "archive:msys2",
        component="",
        kind="download",
        title=f"download {row.file}",
        why="MSYS2 as a self-extracting archive, pinned by the sha256 that its authors' setup program requires",
        artifacts=(Artifact(url=row.url, path=path, sha256=row.sha256),),
        undo=(do.RemoveFiles(pattern=path),),
        done_when=f"file {path} {row.sha256}",
        phase="prerequisites",
        sources=ctx.addresses(row),
    )
    unpacked = draft(
        "unpack:msys2",
        after=("folder:build", "archive:msys2"),
        component="",
        kind="extract",
        title=f"unpack MSYS2 into {MSYS} and update it",
        why="the guide starts mingw64.exe by hand; this is the same 64-bit MSYS2 (the older Msys has no mingw64), "
        r"separate from any C:\msys64, and pacman checks the signature of every package",
        files=(_file("update.cmd", scripts.UPDATE), _file("studio.cmd", scripts.STUDIO)),
        actions=(
            do.RunProgram(argv=(path, "-y", f"-o{WORK}")),
            do.RunProgram(argv=("cmd.exe", "/d", "/c", rf"{_SCRIPTS}\update.cmd")),
            do.LeaveMark(path=marker),
        ),
        undo_note=f"it is removed with {WORK}",
        done_when=f"path {marker}",
        phase="prerequisites",
        sources=ctx.addresses(row),
    )
    return [download, unpacked]


def _packages(ctx: Context, pick: Pick) -> list[Draft]:
    row = family_packages(ctx, "build_tools", pick.component)
    if row is None:
        msg = f"what building {pick.component} requires is not known for {ctx.system.name}"
        raise UnsupportedError(
            msg, code="build-unsupported", hint="systems with apt, dnf, yum, tdnf or zypper can build it"
        )
    name = f"packages-{pick.component}"
    marker = _marker(f"{name}-{sha256_of(row.packages)[:12]}")
    return [
        draft(
            f"build-tools:{pick.component}",
            after=("unpack:msys2",),
            component=pick.component,
            kind="install-packages",
            title=f"install {', '.join(row.packages)} into MSYS2",
            why=f"building {pick.component} needs them"
            + (
                "; yasm, which the guide names, is not accepted by FFmpeg 8.0 and newer"
                if "nasm" in row.packages
                else ""
            ),
            files=(_file(f"{name}.sh", scripts.packages(row.packages)),),
            actions=(_run(f"{name}.sh", row.packages), do.LeaveMark(path=marker)),
            undo_note=f"they go with {WORK}",
            done_when=f"path {marker}",
            phase="prerequisites",
            sources=ctx.addresses(row),
        )
    ]


def _compiler(ctx: Context) -> Compiler:
    cuda = ctx.version("cuda") or ""
    rows = ctx.matrix.rows("cuda", "releases", Compiler)
    return next((row for row in rows if row.version == cuda), Compiler(version=cuda))


def _studio(ctx: Context) -> Draft:
    row, finder = _compiler(ctx), _tool(ctx, "vswhere")
    takes = (
        f"; nvcc {row.version} takes _MSC_VER from {row.msvc_min} up to below {row.msvc_below}" if row.msvc_min else ""
    )
    return draft(
        "studio:ffmpeg",
        component="ffmpeg",
        kind="manual",
        title="install Visual Studio or its Build Tools with the C++ tools for x64",
        why="the workload 'Desktop development with C++': its licence is yours to accept, so no plan installs it"
        f"{takes}; FFmpeg 7.0 and newer require C11 or C17, so the guide's Visual Studio 2013 is probably too old. "
        "The build finds 2017 and newer by vswhere and opens the x64 tools itself; the variable STUDIO names another",
        undo_note="Windows lists it under Installed apps",
        done_when=done.paths(finder.path),
        phase="prerequisites",
        sources=(*ctx.addresses(finder), *ctx.matrix.addresses((f"{SUBJECT}/ffplatform",))),
    )


def _sources(ctx: Context, pick: Pick, folder: str) -> list[Draft]:
    summed = next((row for row in archives(ctx, pick) if row.sha256), None)
    if summed is not None:
        return [fetch(ctx, pick, summed, "applications"), _unpack(ctx, pick, summed, folder)]
    row = tag_of(ctx, pick)
    if row is None:
        msg = f"no checksum or commit is known for the sources of {pick.component} {pick.version}"
        known = [one.version for one in ctx.matrix.archives(pick.component) if one.sha256 and one.url]
        raise UnsupportedError(
            msg, code="unverifiable-source", hint=f"on Windows {pick.component} can be built in {', '.join(known)}"
        )
    remote = remote_of(ctx, pick)
    marker = _marker(f"clone-{pick.component}-{pick.version}")
    script = f"clone-{pick.component}.sh"
    return [
        draft(
            f"clone:{pick.component}",
            after=(f"build-tools:{pick.component}",),
            component=pick.component,
            kind="download",
            title=f"clone {pick.component} at the tag {row.tag}",
            why=f"the checkout fails unless the tag is {row.commit}; the guide clones the newest state",
            files=(_file(script, scripts.clone(remote.url, row.tag, row.commit, folder)),),
            actions=(_run(script), do.LeaveMark(path=marker)),
            undo=(do.RemoveFiles(pattern=folder), do.RemoveFiles(pattern=marker)),
            done_when=f"path {marker}",
            phase="applications",
            sources=ctx.addresses(row, remote),
        )
    ]


def _unpack(ctx: Context, pick: Pick, row: Archive, folder: str) -> Draft:
    marker = _marker(row.file)
    script = f"unpack-{pick.component}.sh"
    return draft(
        f"unpack:{row.file}",
        after=(f"archive:{row.file}", f"build-tools:{pick.component}"),
        component=pick.component,
        kind="extract",
        title=f"unpack {row.file} into {folder}",
        why="a pinned release: the guide clones the newest state, which may not build",
        files=(_file(script, scripts.unpack(path_of(pick, row), folder)),),
        actions=(_run(script), do.LeaveMark(path=marker)),
        undo=(do.RemoveFiles(pattern=folder), do.RemoveFiles(pattern=marker)),
        done_when=f"path {marker}",
        phase="applications",
        sources=ctx.addresses(row),
    )


def _headers_at(version: str) -> str:
    return rf"{WORK}\{win.safe_name(f'headers-{version}')}"


def _headers(ctx: Context, pick: Pick, folder: str, after: str) -> Draft:
    prefix = _headers_at(pick.version)
    marker = _marker(f"headers-{pick.version}")
    return draft(
        "install:nv-codec-headers",
        after=(after,),
        component="nv-codec-headers",
        kind="build",
        title=f"install nv-codec-headers {pick.version} below {prefix}",
        why=reason_of(pick),
        files=(_file("headers.sh", scripts.headers(folder, prefix, pick.version)),),
        actions=(_run("headers.sh"), do.LeaveMark(path=marker)),
        undo=(do.RemoveFiles(pattern=prefix), do.RemoveFiles(pattern=marker)),
        done_when=f"path {marker}",
        phase="applications",
        sources=ctx.matrix.addresses(("nv-codec-headers/nvh",)),
    )


def _ffmpeg(ctx: Context, pick: Pick, folder: str, after: str) -> list[Draft]:
    name = win.safe_name(f"ffmpeg-{pick.version}")
    stage, prefix = rf"{WORK}\stage\{name}", rf"{PROGRAMS}\{name}"
    cuda = ctx.version("cuda")
    sdk = rf"{WORK}\nv_sdk-{win.safe_name(cuda or '')}"
    found = (f"--extra-cflags=-I{scripts.mixed(sdk)}/include", f"--extra-ldflags=-libpath:{scripts.mixed(sdk)}/lib")
    words, reasons = configure_words(ctx, pick, found)
    copied = [_toolkit_files(cuda, sdk)] if cuda and found[0] in words else []
    headers = ctx.version("nv-codec-headers") or ""
    row = _compiler(ctx) if "--enable-cuda-nvcc" in words else Compiler(version="")
    script = scripts.ffmpeg(
        scripts.Build(
            folder=folder,
            stage=stage,
            words=words,
            headers=(_headers_at(headers), "" if is_within(pick.version, "<4.0") else headers),
            toolkit=prefix_of(cuda) if cuda else "",
            msvc=(row.msvc_min, row.msvc_below),
        )
    )
    marker = _marker(f"built-{name}-{sha256_of(script)[:12]}")
    build = draft(
        "build:ffmpeg",
        after=(after, "studio:ffmpeg", "install:nv-codec-headers", "install:cuda", *(one.key for one in copied)),
        component="ffmpeg",
        kind="build",
        title=f"configure and build FFmpeg {pick.version} with Visual C++",
        why="; ".join((reason_of(pick), *reasons, "all processors build")),
        files=(_file("build-ffmpeg.sh", script),),
        actions=(
            do.RunProgram(
                argv=("cmd.exe", "/d", "/c", rf"{_SCRIPTS}\studio.cmd", scripts.mixed(rf"{_SCRIPTS}\build-ffmpeg.sh"))
            ),
            do.LeaveMark(path=marker),
        ),
        undo=(do.RemoveFiles(pattern=stage), do.RemoveFiles(pattern=marker)),
        done_when=f"path {marker}",
        phase="applications",
        sources=ctx.matrix.addresses(("ffmpeg/fftags", "ffmpeg/conf", f"{SUBJECT}/ffplatform")),
    )
    return [*copied, build, _install(pick, stage, prefix, marker)]


def _toolkit_files(cuda: str, sdk: str) -> Draft:
    prefix = prefix_of(cuda)
    marker = _marker(f"nv_sdk-{cuda}")
    return draft(
        "nv_sdk:ffmpeg",
        after=("install:cuda", "folder:build"),
        component="ffmpeg",
        kind="run",
        title=f"copy the headers and libraries of CUDA {cuda} to {sdk}",
        why="the guide's folder nv_sdk: libnpp is linked, and configure accepts no path with blanks",
        actions=(
            do.RemoveFiles(pattern=sdk),
            do.CopyFiles(pattern=rf"{prefix}\include\*", folder=rf"{sdk}\include"),
            do.CopyFiles(pattern=rf"{prefix}\lib\x64\*", folder=rf"{sdk}\lib"),
            do.LeaveMark(path=marker),
        ),
        undo=(do.RemoveFiles(pattern=sdk), do.RemoveFiles(pattern=marker)),
        done_when=f"path {marker}",
        phase="applications",
    )


def _install(pick: Pick, stage: str, prefix: str, built: str) -> Draft:
    marker = rf"{prefix}\.gpustack\{built.rpartition(chr(92))[2]}"
    return draft(
        "install:ffmpeg",
        after=("build:ffmpeg",),
        component="ffmpeg",
        kind="run",
        title=f"install FFmpeg {pick.version} below {prefix} and put it on the machine's PATH",
        why="a separate folder is easy to remove; the programs are linked statically by Visual C++ and need no "
        r"DLL of MSYS2, so nothing is copied next to them (the guide copies all of C:\msys64\mingw64\bin where "
        "libbz2-1.dll is missing)",
        actions=(
            do.RemoveFiles(pattern=prefix),
            do.CopyFiles(pattern=rf"{stage}\*", folder=prefix),
            do.MakeFolder(path=rf"{prefix}\.gpustack"),
            do.LeaveMark(path=marker),
            do.AddPath(folder=rf"{prefix}\bin"),
        ),
        undo=(do.UndoPath(folder=rf"{prefix}\bin"), do.RemoveFiles(pattern=prefix)),
        done_when=f"path {marker}",
        phase="applications",
    )
