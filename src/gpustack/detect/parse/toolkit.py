"""CUDA toolkits, header versions, and versions of other components from their own files."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from gpustack.detect.evidence import Evidence
from gpustack.detect.parse.packages import Package, matching
from gpustack.patterns import later
from gpustack.versions import version_key

_VERSION = later(r"\d{1,3}(?:\.\d{1,4}){1,3}")
_FOLDER = later(r"/usr/local/cuda-(\d+\.\d+)(?=/)")


class Toolkit(msgspec.Struct, frozen=True, kw_only=True):
    """One CUDA toolkit. ``folder`` is the X.Y of its folder's name; ``runfile``: its own uninstaller exists."""

    path: str
    version: str
    folder: str
    runfile: bool = False
    packages: tuple[str, ...] = ()
    origin: str = ""
    broken: str = ""


def parse_version_json(text: str) -> str | None:
    """The toolkit's version in version.json; None if the file has another form."""
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    entry = document.get("cuda") if isinstance(document, dict) else None
    found = entry.get("version") if isinstance(entry, dict) else None
    return found if isinstance(found, str) and _VERSION.fullmatch(found) else None


def parse_version_txt(text: str) -> str | None:
    """The toolkit's version in version.txt of toolkits before 11.1: "CUDA Version 10.0.130"."""
    match = re.match(r"\s*CUDA Version (\d+(?:\.\d+){1,3})\s*$", text, re.MULTILINE)
    return match[1] if match and _VERSION.fullmatch(match[1]) else None


def find_toolkits(evidence: Evidence, packages: tuple[Package, ...]) -> tuple[Toolkit, ...]:
    """The toolkits in /usr/local/cuda-X.Y, lowest first, and the distribution's own under /usr."""
    folders = {match[0] for path in _paths(evidence) if (match := _FOLDER.match(path))}
    found = [_toolkit(evidence, packages, folder) for folder in folders]
    for package in matching(packages, r"nvidia-cuda-toolkit"):
        if re.match(r"\d+\.\d", package.upstream):
            found.append(  # noqa: PERF401 (one at most)
                Toolkit(
                    path="/usr",
                    version=package.upstream,
                    folder=".".join(package.upstream.split(".")[:2]),
                    packages=(package.name,),
                    origin=package.origin,
                )
            )
    if not found:
        plain = next(
            (
                parsed
                for path in ("/usr/local/cuda/version.json", "/usr/local/cuda/version.txt")
                if (parsed := _parsed(evidence, path))
            ),
            None,
        )
        if plain:
            found.append(Toolkit(path="/usr/local/cuda", version=plain, folder=".".join(plain.split(".")[:2])))
    return tuple(sorted(found, key=lambda kit: version_key(kit.folder)))


def _paths(evidence: Evidence) -> list[str]:
    """The content of a toolkit's folder: an empty left-over folder is not a toolkit."""
    marks = [path for path in evidence.marks if path.endswith(("/bin/nvcc", "/bin/cuda-uninstaller"))]
    files = [path for path in evidence.files if path.rpartition("/")[2] in {"version.json", "version.txt"}]
    libraries = [
        folder for folder, names in evidence.listings.items() if any(name.startswith("libcudart.so") for name in names)
    ]
    return [*marks, *files, *libraries]


def _parsed(evidence: Evidence, path: str) -> str | None:
    text = evidence.text(path)
    if text is None:
        return None
    return parse_version_json(text) if path.endswith(".json") else parse_version_txt(text)


_META = ("toolkit", "runtime", "compiler", "libraries")


def _toolkit(evidence: Evidence, packages: tuple[Package, ...], folder: str) -> Toolkit:
    name = folder.removeprefix("/usr/local/cuda-")
    dashed = name.replace(".", "-")
    mine = matching(packages, rf"cuda-(?:toolkit|runtime|cudart|nvcc|libraries|compiler)-{dashed}")
    # The meta packages have the release's number, whereas cuda-nvcc and cuda-cudart have the part's.
    named = next((p for meta in _META for p in mine if p.name == f"cuda-{meta}-{dashed}"), None)
    texts = [f"{folder}/version.json", f"{folder}/version.txt"]
    parsed = next((v for path in texts if (v := _parsed(evidence, path))), None)
    broken = next((path for path in texts if path in evidence.files and not _parsed(evidence, path)), "")
    return Toolkit(
        path=folder,
        version=parsed or (named.upstream if named is not None else None) or name,
        folder=name,
        runfile=f"{folder}/bin/cuda-uninstaller" in evidence.marks,
        packages=tuple(package.name for package in mine),
        origin=mine[0].origin if mine else "",
        broken=broken if not parsed else "",
    )


def default_toolkit(evidence: Evidence, toolkits: tuple[Toolkit, ...]) -> Toolkit | None:
    """The toolkit that /usr/local/cuda points to, else the newest."""
    target = evidence.links.get("/usr/local/cuda", "")
    if target.startswith("/etc/alternatives/"):
        target = evidence.links.get("/etc/alternatives/cuda", "")
    name = target.rstrip("/").rpartition("/")[2]
    return next((kit for kit in toolkits if kit.path.endswith("/" + name) and name), toolkits[-1] if toolkits else None)


def defines(text: str) -> dict[str, str]:
    """The ``#define NAME VALUE`` lines of a header; a value that is another defined name is resolved once."""
    found: dict[str, str] = dict(
        re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w{1,80})[ \t]+(\w{1,80})", text, re.MULTILINE)
    )
    return {name: found.get(value, value) for name, value in found.items()}


def cudnn_header(text: str) -> str | None:
    """The version of a cuDNN header: major.minor.patch."""
    return _numbers(defines(text), ("CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL"))


def tensorrt_header(text: str) -> str | None:
    """The version in TensorRT's NvInferVersion.h: major.minor.patch, with the build if present."""
    names = ("NV_TENSORRT_MAJOR", "NV_TENSORRT_MINOR", "NV_TENSORRT_PATCH")
    found = defines(text)
    return _numbers(found, (*names, "NV_TENSORRT_BUILD")) or _numbers(found, names)


def _numbers(found: dict[str, str], names: tuple[str, ...]) -> str | None:
    values = [found.get(name, "") for name in names]
    return ".".join(values) if all(value.isdigit() and len(value) <= 5 for value in values) else None


def cudnn_headers(evidence: Evidence) -> dict[str, str]:
    """The cuDNN headers by path with their versions, in the compiler's order."""
    paths = [path for path in evidence.files if re.search(r"/cudnn(?:_version)?\w*\.h$", path)]
    found = {path: version for path in paths if (version := cudnn_header(evidence.files[path]))}
    return dict(sorted(found.items()))


def tensorrt_headers(evidence: Evidence) -> dict[str, str]:
    """TensorRT's headers by path with their versions."""
    paths = [path for path in evidence.files if path.endswith("/NvInferVersion.h")]
    return {path: version for path in paths if (version := tensorrt_header(evidence.files[path]))}


def codec_headers(evidence: Evidence) -> dict[str, str]:
    """The ffnvcodec.pc files with their versions, /usr/local first as users of pkg-config mean it."""
    found = {}
    for path in sorted(evidence.files, key=lambda path: (not path.startswith("/usr/local"), path)):
        if path.endswith("/ffnvcodec.pc"):
            match = re.search(r"^Version:\s*(\d+(?:\.\d+){2,3})\s*$", evidence.files[path], re.MULTILINE)
            if match:
                found[path] = match[1]
    return found


def gcc_package(links: Mapping[str, str]) -> str:
    """The package with the version of /usr/bin/gcc: the one that Debian's link names, else rpm's gcc."""
    target = links.get("/usr/bin/gcc", "").rpartition("/")[2]
    return target if re.fullmatch(r"gcc-\d+", target) else "" if target else "gcc"


def gcc_version(evidence: Evidence, packages: tuple[Package, ...]) -> str:
    """The version of the gcc on the PATH, from itself or its package; "" without one."""
    told = (evidence.output("gcc -dumpfullversion") or "").strip()
    if told:
        return told
    names = (gcc_package(evidence.links), "gcc")
    found = (one.upstream for name in names for one in packages if one.name == name and one.installed)
    return next(found, "")


def glibc_version(evidence: Evidence, packages: tuple[Package, ...]) -> str:
    """The two numbers of the C library, from itself or its package; "" if they are unknown."""
    told = (evidence.output("confstr CS_GNU_LIBC_VERSION") or "").strip().removeprefix("glibc ")
    found = matching(packages, r"libc6|glibc")
    match = re.match(r"\d+\.\d+", told or (found[0].version if found else ""))
    return match[0] if match else ""


def ffmpeg_version(evidence: Evidence) -> str | None:
    """The version that the ffmpeg on the running machine's path prints; in a tree, what its build left with it."""
    match = re.match(r"ffmpeg version n?(\d+\.\d+(?:\.\d+)?)", evidence.output("ffmpeg -hide_banner -version") or "")
    if match is None and "/usr/local/bin/ffmpeg" in evidence.marks:
        place = evidence.links.get("/usr/local/bin/ffmpeg") or "/usr/local/bin/ffmpeg"
        header = evidence.text(f"{place.removesuffix('/bin/ffmpeg')}/include/libavutil/ffversion.h") or ""
        match = re.search(r'^#define FFMPEG_VERSION "n?(\d+\.\d+(?:\.\d+)?)"', header, re.MULTILINE)
    return match[1] if match else None
