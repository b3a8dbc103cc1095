"""Which nvcc builds programs, with which host compiler, for which GPUs, and where headers and libraries are."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from gpustack.verify.declare import Context
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.rules import Part, fit

_NEWEST_GCC, _OLDEST_GCC = 16, 5


class Toolkit(Struct, frozen=True, kw_only=True):
    """An nvcc, the toolkit's release that it names ("13.0"), its own version ("13.0.88"), and the toolkit's folder."""

    nvcc: str
    release: str
    version: str
    root: Path


class HostCompiler(Struct, frozen=True, kw_only=True):
    """The C++ compiler for nvcc. ``path`` is None where none is supported; ``seen`` then lists those found."""

    path: str | None = None
    version: str = ""
    seen: tuple[str, ...] = ()
    wanted: str = ""
    chosen_by: str = ""


class Home(Struct, frozen=True, kw_only=True):
    """Where a library is: the folder of its header and the file to link with. ``origin`` says which of several."""

    include: Path
    library: Path
    origin: str


def select_toolkit(context: Context) -> Toolkit | None:
    """The nvcc that builds: of CUDA_HOME, of PATH, of the toolkit that was found, of a Python environment."""
    return context.shared.once("toolkit", lambda: _find_toolkit(context))


def _find_toolkit(context: Context) -> Toolkit | None:
    installed = context.host.installed.get("cuda")
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    candidates = [f"{root}/bin/nvcc" for root in roots if root]
    candidates.append("nvcc")
    if installed and installed.path:
        candidates.append(f"{installed.path}/bin/nvcc")
    candidates += [
        "/usr/local/cuda/bin/nvcc",
        *(str(site / "nvidia/cu13/bin/nvcc") for site in find_site_folders(context)),
    ]
    for nvcc in candidates:
        end = context.run(nvcc, "--version", timeout=20.0)
        match = re.search(r"release (\d+\.\d+), V([\d.]+)", end.out)
        if end.code == 0 and match:
            return Toolkit(nvcc=nvcc, release=match[1], version=match[2], root=_root_of(context, nvcc))
    return None


def _root_of(context: Context, nvcc: str) -> Path:
    """The folder that nvcc itself uses as its toolkit's; nvcc may be reached through a script or a link."""
    end = context.run(nvcc, "--dryrun", "-x", "cu", "-c", "/dev/null", timeout=20.0)
    match = re.search(r"^#\$ TOP=(.+)$", end.err, re.MULTILINE)
    if match:
        return Path(os.path.normpath(match[1].strip()))
    return Path(nvcc).resolve().parent.parent


def select_compiler(context: Context) -> HostCompiler:
    """The host compiler by the matrix: NVCC_CCBIN if the user set it, else the first g++ that this nvcc supports."""
    return context.shared.once("host-compiler", lambda: _find_compiler(context))


def _find_compiler(context: Context) -> HostCompiler:
    set_by_user = os.environ.get("NVCC_CCBIN")
    if set_by_user:
        version = _gcc_version(context, set_by_user)
        return HostCompiler(path=set_by_user, version=version or "", chosen_by="NVCC_CCBIN")
    kit = select_toolkit(context)
    seen: list[str] = []
    wanted = ""
    for name in ("g++", *(f"g++-{major}" for major in range(_NEWEST_GCC, _OLDEST_GCC - 1, -1))):
        version = _gcc_version(context, name)
        if version is None:
            continue
        seen.append(f"{name} {version}")
        answer = fit(context, Part("cuda", kit.release if kit else "0"), Part("gcc", version))
        if not (answer.breach or answer.advice):
            return HostCompiler(path=name, version=version, seen=tuple(seen))
        wanted = answer.wanted
    return HostCompiler(seen=tuple(seen), wanted=wanted)


def _gcc_version(context: Context, name: str) -> str | None:
    end = context.run(name, "-dumpfullversion", "-dumpversion", timeout=10.0)
    return host_facts.upstream(end.out.strip()) if end.code == 0 else None


def gencode_options(context: Context) -> tuple[str, ...]:
    """Nvcc's -gencode options: machine code for each kind of GPU on the host, and PTX for the newest."""
    capabilities = {gpu.compute_capability for gpu in host_facts.own_gpus(context.host) if gpu.compute_capability}
    numbers = sorted({text.replace(".", "") for text in capabilities}, key=int)
    options = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in numbers]
    return (*options, *(f"-gencode=arch=compute_{number},code=compute_{number}" for number in numbers[-1:]))


def find_site_folders(context: Context) -> tuple[Path, ...]:
    """The site-packages folders of the Python that runs gpustack and of the one on PATH."""
    return context.shared.once("sites", lambda: _find_sites(context))


def _find_sites(context: Context) -> tuple[Path, ...]:
    code = "import sys; print('\\n'.join(sys.path))"
    end = context.run("python3", "-c", code, timeout=20.0)
    lines = end.out.splitlines() if end.code == 0 else []
    folders = dict.fromkeys(
        Path(line) for line in (*lines, *sys.path) if line.endswith(("site-packages", "dist-packages"))
    )
    return tuple(folder for folder in folders if folder.is_dir())


def find_homes(context: Context, header: str, stem: str, component: str) -> tuple[Home, ...]:
    """Every place with both ``header`` and the library ``stem`` ("libcudnn"), the system's first, wheels' last."""
    folders: list[tuple[Path, Iterable[Path]]] = []
    kit = select_toolkit(context)
    multiarch = f"{context.host.arch or 'x86_64'}-linux-gnu"
    libraries = [Path(f"/usr/lib/{multiarch}"), Path("/usr/lib64"), Path("/usr/lib")]
    roots = [Path(f"/usr/include/{multiarch}"), Path("/usr/include")]
    folders += [(root, libraries) for root in roots]
    for root in (kit.root if kit else None, Path("/usr/local/cuda"), *_own_folders(context, component)):
        if root is not None:
            inside = [root / "lib64", root / "lib", *root.glob("targets/*/lib")]
            folders += [(include, inside) for include in (root / "include", *root.glob("targets/*/include"))]
    for site in find_site_folders(context):
        for wheel in sorted(site.glob(f"nvidia/*/include/{header}")):
            folders.append((wheel.parent, [wheel.parent.parent / "lib"]))
    found: dict[tuple[Path, Path], Home] = {}
    for include, places in folders:
        library = library_in(places, stem) if (include / header).is_file() else None
        if library is not None:
            key = ((include / header).resolve(), library.resolve())
            origin = "wheel" if "site-packages" in include.parts or "dist-packages" in include.parts else "system"
            found.setdefault(key, Home(include=include, library=library, origin=origin))
    return tuple(found.values())


def _own_folders(context: Context, component: str) -> tuple[Path, ...]:
    """Where the component was found: its own folder, and those of unpacked archives."""
    installed = context.host.installed.get(component)
    named = [Path(installed.path)] if installed and installed.path else []
    copies = [Path(copy.path).parent for copy in context.host.copies if copy.component == component]
    named += [folder.parent for folder in copies if folder.name in {"lib", "lib64"}]
    return tuple(folder for folder in dict.fromkeys(named) if folder.is_dir())


def library_in(folders: Iterable[Path], stem: str) -> Path | None:
    """The file to link with: the plain .so if it exists, else that of the highest soname, as in wheels."""
    for folder in folders:
        plain = folder / f"{stem}.so"
        if plain.exists():
            return plain
        numbered = [
            path
            for path in folder.glob(f"{stem}.so.*")
            if re.fullmatch(r"\d+(\.\d+)*", path.name.rpartition(".so.")[2])
        ]
        if numbered:
            return max(numbered, key=lambda path: (-len(path.name), path.name))
    return None
