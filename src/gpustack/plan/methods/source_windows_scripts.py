"""The scripts of a build on Windows: constant batch files, and bash for MSYS2 with every value quoted."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from msgspec import Struct

from gpustack.plan.methods.source_rows import TAR_SWITCHES

_DRIVE = re.compile(r"([A-Za-z]):(.*)", re.DOTALL)

STUDIO = r"""@echo off
rem Runs the bash script named first where Visual C++ for x64 is set up.
rem Set STUDIO to the folder of a Visual Studio to take another than the newest.
setlocal
if defined STUDIO goto found
pushd "%ProgramFiles(x86)%\Microsoft Visual Studio\Installer" || goto missing
set "WANTED=Microsoft.VisualStudio.Component.VC.Tools.x86.x64"
set "ASK=.\vswhere.exe -latest -products * -requires %WANTED% -property installationPath"
for /f "usebackq delims=" %%i in (`%ASK%`) do set "STUDIO=%%i"
popd
if not defined STUDIO goto missing
:found
call "%STUDIO%\VC\Auxiliary\Build\vcvars64.bat"
if errorlevel 1 exit /b 1
rem configure and make read the compiler's messages in English.
set "VSLANG=1033"
set "MSYSTEM=MINGW64"
set "MSYS2_PATH_TYPE=inherit"
"%~dp0..\msys64\usr\bin\bash.exe" --login "%~1"
exit /b %errorlevel%
:missing
echo no Visual Studio with the C++ tools for x64 is installed 1>&2
exit /b 1
""".replace("\n", "\r\n")
"""A batch file that sets up Visual C++ for x64 and continues in MSYS2; it contains no value of a plan."""

UPDATE = r"""@echo off
setlocal
set "BASH=%~dp0..\msys64\usr\bin\bash.exe"
"%BASH%" --login -c "true"
rem The first run may end early: it renews the programs that it runs on.
"%BASH%" --login -c "pacman --noconfirm -Syuu"
"%BASH%" --login -c "pacman --noconfirm -Syuu"
exit /b %errorlevel%
""".replace("\n", "\r\n")
"""A batch file that starts an MSYS2 for the first time and updates it, as its authors recommend for automation."""


class Build(Struct, frozen=True, kw_only=True):
    """One build of FFmpeg: ``stage`` is where it is installed first, ``words`` are the arguments of configure.

    ``headers`` are the folder and version of nv-codec-headers ("" for FFmpeg before 4.0, which has its own),
    ``toolkit`` the folder of CUDA, ``msvc`` the lowest _MSC_VER that its nvcc supports and the first that it does not.
    """

    folder: str
    stage: str
    words: tuple[str, ...]
    headers: tuple[str, str]
    toolkit: str = ""
    msvc: tuple[str, str] = ("", "")


def unix(path: str) -> str:
    r"""A Windows path in MSYS2 form: ``C:\a b`` is ``/c/a b``."""
    found = _DRIVE.fullmatch(path)
    plain = path.replace("\\", "/")
    return f"/{found[1].lower()}{plain[2:]}" if found else plain


def mixed(path: str) -> str:
    """A Windows path with slashes: both bash and Windows programs accept it."""
    return path.replace("\\", "/")


def bash(lines: Iterable[str]) -> str:
    """A bash script that stops at the first failure."""
    return "\n".join(("set -euo pipefail", *lines, ""))


def packages(names: Iterable[str]) -> str:
    """Install packages of MSYS2."""
    return bash([shlex.join(("pacman", "--noconfirm", "--sync", "--needed", "--", *names))])


def unpack(archive: str, folder: str) -> str:
    """Unpack a source archive without its top folder."""
    path, into = unix(archive), unix(folder)
    return bash(
        [
            shlex.join(("rm", "-rf", "--", into)),
            shlex.join(("mkdir", "-p", "--", into)),
            shlex.join(("tar", "--extract", f"--file={path}", f"--directory={into}", *TAR_SWITCHES)),
        ]
    )


def clone(url: str, tag: str, commit: str, folder: str) -> str:
    """Clone a tag, which must stand for the commit."""
    into = unix(folder)
    return bash(
        [
            shlex.join(("rm", "-rf", "--", into)),
            shlex.join(("git", "clone", "--quiet", "--depth", "1", "--branch", tag, "--", url, into)),
            shlex.join(("git", "-C", into, "checkout", "--quiet", "--detach", commit)),
        ]
    )


def headers(folder: str, prefix: str, version: str) -> str:
    """Install nv-codec-headers, and check that pkg-config finds this version."""
    return bash(
        [
            shlex.join(("make", "-C", unix(folder), "install", f"PREFIX={mixed(prefix)}")),
            *_find_headers(prefix, version),
        ]
    )


def ffmpeg(build: Build) -> str:
    """Configure, build and install FFmpeg, and check that it has the encoder."""
    stage = unix(build.stage)
    path = f"{shlex.quote(unix(build.toolkit) + '/bin')}:" if build.toolkit else ""
    configure = ("./configure", "--toolchain=msvc", "--disable-shared", f"--prefix={stage}", *build.words)
    return bash(
        [
            'if [ "${VSCMD_ARG_TGT_ARCH:-}" != x64 ] || ! compiler=$(command -v cl.exe); then',
            '    echo "Visual C++ is not set up for x64" >&2',
            "    exit 1",
            "fi",
            f'PATH="$(dirname -- "$compiler")":{path}"$PATH"',
            "export PATH",
            f"cd -- {shlex.quote(unix(build.folder))}",
            *(_accepted(*build.msvc) if all(build.msvc) else ()),
            *(_find_headers(*build.headers) if build.headers[1] else ()),
            shlex.join(("rm", "-rf", "--", stage)),
            shlex.join(configure),
            'make --jobs="$(nproc)"',
            "./ffmpeg.exe -hide_banner -encoders > gpustack-encoders.txt",
            "grep --quiet h264_nvenc gpustack-encoders.txt",
            "make install",
        ]
    )


def _accepted(lowest: str, below: str) -> list[str]:
    """Lines that stop if nvcc does not support the compiler."""
    text = f"nvcc takes _MSC_VER from {lowest} up to but not including {below}: set STUDIO to a Visual Studio with one"
    return [
        "printf '_MSC_VER\\n' > gpustack-compiler.c",
        "number=$(cl.exe -nologo -EP gpustack-compiler.c 2>/dev/null | tr -cd 0-9)",
        f'if [ "${{number:-0}}" -lt {shlex.quote(lowest)} ] || [ "$number" -ge {shlex.quote(below)} ]; then',
        f"    echo {shlex.quote(text)} >&2",
        "    exit 1",
        "fi",
    ]


def _find_headers(prefix: str, version: str) -> list[str]:
    return [
        f"export PKG_CONFIG_PATH={shlex.quote(unix(prefix) + '/lib/pkgconfig')}",
        shlex.join(("pkg-config", "--print-errors", f"--exact-version={version}", "ffnvcodec")),
    ]
