"""A downloaded file of one component: read inside, held against what it is to be, known by its sum."""

from __future__ import annotations

import gzip
import lzma
import re
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from gpustack.detect.downloaded.archives import read_runfile, read_tar, read_zip
from gpustack.detect.downloaded.packages import read_deb, read_rpm
from gpustack.detect.downloaded.parts import Contents
from gpustack.errors import UsageError
from gpustack.matrix.index import Matrix
from gpustack.model.architectures import architecture
from gpustack.model.facts import Archive
from gpustack.model.host import Host
from gpustack.model.offer import Wheel
from gpustack.model.own_file import OwnFile, OwnPackage
from gpustack.patterns import later
from gpustack.system.hashed import sha256_of_file
from gpustack.system.packed import ZSTD
from gpustack.versions import is_within

KNOWN = ("driver", "cuda", "cudnn", "nccl", "tensorrt")
"""Components of which NVIDIA gives out files to be downloaded by hand."""

_NAME = later(r"[A-Za-z0-9][A-Za-z0-9._+~%-]{0,199}")
_VERSION = later(r"\d+(?:\.\d+){1,4}")
_BUILD = later(r"[.+]cuda(\d+\.\d+)$")
_NAMED_BUILD = later(r"-cuda-(\d+)$")
_DAMAGED = (OSError, EOFError, ValueError, tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, gzip.BadGzipFile)
_TAR_ENDINGS = {b"\x1f\x8b": "tar.gz", b"\xfd7zXZ": "tar.xz", b"BZh": "tar.bz2", ZSTD: "tar.zst"}


def read_own_file(matrix: Matrix, component: str, path: Path, host: Host) -> OwnFile:
    """The file of a component, for this host. Raises UsageError (exit 2), which says what the file is instead."""
    if component not in KNOWN:
        msg = f"no file that is downloaded by hand contains {component}"
        raise UsageError(msg, code="not-that-file", where="--from", hint=f"--from takes files of {', '.join(KNOWN)}")
    contents = _read(path)
    sha256 = sha256_of_file(path)
    known = _row_of(matrix, sha256)
    if known is not None:
        contents = _by_facts(contents, known)
    file = _of_component(matrix, component, contents, path)
    _demand_host(file, contents, host)
    return replace(file, path=str(path.resolve()), sha256=sha256, size=path.stat().st_size)


def _read(path: Path) -> Contents:
    if not path.is_file():
        msg = "is not a file" if path.exists() else "does not exist"
        raise UsageError(msg, code="unreadable-file", where=str(path), hint="give the file that you downloaded")
    try:
        with path.open("rb") as raw:
            head = raw.read(512)
        if head.startswith(b"!<arch>\n"):
            return read_deb(path)
        if head.startswith(b"\xed\xab\xee\xdb"):
            return read_rpm(path)
        if head.startswith(b"#!"):
            return read_runfile(path)
        if head.startswith(b"PK"):
            return read_zip(path)
        ending = next((word for magic, word in _TAR_ENDINGS.items() if head.startswith(magic)), "")
        if ending or head[257:262] == b"ustar":
            return read_tar(path, ending or "tar")
    except _DAMAGED as exc:
        msg = f"cannot be read: {_said(exc)}"
        raise UsageError(msg, code="unreadable-file", where=str(path), hint="download it again") from exc
    msg = f"is {_what_begins(head)}: no archive, package, wheel or installer"
    raise UsageError(
        msg, code="not-that-file", where=str(path), hint="a page of a login saved as a file looks like this"
    )


def _said(exc: BaseException) -> str:
    return getattr(exc, "strerror", None) or str(exc) or type(exc).__name__


def _what_begins(head: bytes) -> str:
    if not head:
        return "empty"
    if head.lstrip()[:1] == b"<":
        return "a web page"
    return "a text" if all(31 < byte < 127 or byte in b"\r\n\t" for byte in head) else "of another kind"


def _row_of(matrix: Matrix, sha256: str) -> Archive | None:
    """The row of the facts with this sum: then what the file is needs no reading."""
    for subject in matrix.subjects:
        for row in matrix.archives(subject):
            if row.sha256 == sha256:
                return row
    return None


def _by_facts(contents: Contents, row: Archive) -> Contents:
    if contents.form in {"package", "repository", "wheel"}:
        return contents
    return replace(contents, component=row.component, version=row.version, cuda=row.cuda, file=row.file)


def _of_component(matrix: Matrix, component: str, contents: Contents, path: Path) -> OwnFile:
    """The file as one of this component. Raises UsageError where it is none."""
    found, version, cuda = contents.component, contents.version, contents.cuda
    packages = contents.packages
    if contents.form in {"package", "repository"}:
        holding = {name: _named_by_facts(matrix, name, packages) for name in KNOWN}
        packages = holding[component]
        found = component if packages else next((name for name in KNOWN if holding[name]), "")
        if packages:
            leading = _named_by_facts(matrix, component, packages, role="main") or packages
            version, cuda = _version_of(leading, path), _cuda_of(leading)
    elif contents.form == "wheel":
        found, version = _wheel_of_facts(matrix, contents)
    if found != component or not version:
        raise _other_file(component, contents, found, version, path)
    if contents.form in {"tar", "zip", "runfile"}:
        version = _released(matrix, component, version)
        cuda = _with_minor(cuda, path.name) if component != "cuda" else ""
    if not (_NAME.fullmatch(contents.file) and _VERSION.fullmatch(version)):
        msg = f"names itself {contents.file[:80]!r} in version {version[:40]!r}, which is no name of a vendor's file"
        raise UsageError(msg, code="not-that-file", where=str(path), hint="download it again")
    return OwnFile(
        path=str(path),
        component=component,
        form=contents.form,
        file=contents.file,
        version=version,
        arch=_architecture(contents.arch),
        sha256="",
        size=0,
        family=contents.family,
        cuda=cuda,
        distro=_folder_in(matrix, contents.name) if contents.form == "repository" else "",
        top_dir=contents.top_dir,
        packages=packages,
        board=contents.board,
    )


def _other_file(component: str, contents: Contents, found: str, version: str, path: Path) -> UsageError:
    what = f"{found} {version}".strip() if found else contents.name or "nothing that is known"
    held = ", ".join(one.name for one in contents.packages[:3])
    words = {"package": "a package", "repository": "a package that holds a repository", "wheel": "a wheel"}
    kind = words.get(contents.form, "an installer" if contents.form == "runfile" else "an archive")
    of = f" of {what}" if found or not held else f" with {held}"
    msg = f"is {kind}{of}, and not of {component}"
    hint = f"--from {found}={path}" if found in KNOWN else "NVIDIA's download pages name the file of each release"
    if found == component:
        msg = f"is {kind} of {component} that does not say its version"
        hint = "an installer of CUDA is known by its checksum only: download it again, or use another method"
    return UsageError(msg, code="not-that-file", where=str(path), hint=hint)


def _named_by_facts(
    matrix: Matrix, component: str, packages: Iterable[OwnPackage], *, role: str = ""
) -> tuple[OwnPackage, ...]:
    """Those packages that the facts name as a component's, of one role or of any."""
    names = {name for row in matrix.packages(component) for name in row.packages if role in {"", row.role}}
    return tuple(one for one in packages if one.name in names)


def _version_of(packages: tuple[OwnPackage, ...], path: Path) -> str:
    """The version of the component that its packages have. Raises UsageError where they have several."""
    versions = {re.split(r"[-+~]", one.version.rpartition(":")[2], maxsplit=1)[0] for one in packages}
    if len(versions) > 1:
        msg = f"holds several versions: {', '.join(sorted(versions))}"
        raise UsageError(msg, code="not-that-file", where=str(path), hint="give a file with one release")
    return versions.pop()


def _cuda_of(packages: tuple[OwnPackage, ...]) -> str:
    builds = {found[1] for one in packages if (found := _BUILD.search(one.version)) is not None}
    builds = builds or {found[1] for one in packages if (found := _NAMED_BUILD.search(one.name)) is not None}
    return builds.pop() if len(builds) == 1 else ""


def _wheel_of_facts(matrix: Matrix, contents: Contents) -> tuple[str, str]:
    """The component of a wheel's project, and the component's version."""
    rows = [row for row in matrix.rows("wheels", "archives", Wheel) if row.part == contents.name]
    rows += [row for row in matrix.rows("tensorrt-archives", "archives", Wheel) if row.part == contents.name]
    exact = next((row for row in rows if (row.wheel_version or row.version) == contents.version), None)
    if exact is not None:
        return exact.component, exact.version
    return (rows[0].component, contents.version) if rows else ("", contents.version)


def _released(matrix: Matrix, component: str, version: str) -> str:
    """The release that a version with fewer numbers means, where there is one."""
    fitting = [row.version for row in matrix.releases(component) if is_within(row.version, f"=={version}.*")]
    return fitting[0] if len(fitting) == 1 else version


def _with_minor(cuda: str, name: str) -> str:
    """The CUDA of a build: where its content says the major only, a name like the vendor's may say the rest."""
    found = re.search(r"(?:cuda-?|cudnn-)(\d+\.\d+)", name)
    return found[1] if found and found[1].partition(".")[0] == cuda else cuda


def _architecture(word: str) -> str:
    found = architecture(word)
    return found.name if found is not None else ""


def _folder_in(matrix: Matrix, name: str) -> str:
    """The repository folder that a package's name holds, as ubuntu2204."""
    folders = {row.repo for row in matrix.repositories}
    return max((one for one in folders if one in name.split("-")), key=len, default="")


def _demand_host(file: OwnFile, contents: Contents, host: Host) -> None:
    """Raise UsageError where a file is for another kind of host."""
    here = host.os.spelled
    is_windows = host.os.family == "windows"
    if file.family == "apt":
        fits = host.os.family == "apt"
    elif file.family == "rpm":
        fits = host.os.family in {"dnf", "yum", "zypper", "tdnf"}
    else:
        fits = file.family == "" or (file.family == "windows") == is_windows
    words = {"apt": "Debian and Ubuntu", "rpm": "systems with rpm", "windows": "Windows", "linux": "Linux"}
    wrong = "" if fits else words[file.family]
    wrong = wrong or (file.arch if file.arch and host.arch and file.arch != host.arch else "")
    wrong = wrong or (file.distro if file.distro and host.os.repo and file.distro != host.os.repo else "")
    if contents.board != (host.environment == "jetson") and (contents.board or file.form == "repository"):
        wrong = wrong or ("a Jetson" if contents.board else "servers and workstations, not a Jetson")
    if wrong:
        msg = f"is {file.component} {file.version} for {wrong}, and this host is {here} {host.arch or ''}".rstrip()
        raise UsageError(msg, code="not-that-file", where=file.path, hint="download the file for this system")
