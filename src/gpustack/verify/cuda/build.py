"""Builds a sample with the host's own tools: nvcc with the host compiler of the matrix, libraries by their files."""

from __future__ import annotations

import os
import re
from pathlib import Path

from msgspec import Struct

from gpustack.system.run import Finished
from gpustack.verify.cuda.toolchain import Home, HostCompiler, Toolkit, compiler, targets, toolkit
from gpustack.verify.declare import Context, Outcome, errored, failed, skipped
from gpustack.verify.frame.commands import evidence_of, first_line
from gpustack.verify.samples import place

BUILD_S = 240.0
"""Seconds that nvcc is given."""


class Cross(Struct, frozen=True, kw_only=True):
    """Another machine to build for: its folder below the toolkit's ``targets``, and the compiler that builds for it."""

    folder: str
    compiler: str


class Built(Struct, frozen=True, kw_only=True):
    """A program that was built, how, and the folders that hold its libraries."""

    program: Path
    end: Finished
    folders: tuple[str, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """The program's own libraries after those of LD_LIBRARY_PATH, as a user's program would find them."""
        old = os.environ.get("LD_LIBRARY_PATH", "")
        return {"LD_LIBRARY_PATH": ":".join(part for part in (old, *self.folders) if part)}


def build(
    context: Context, source: str, *uses: Home, options: tuple[str, ...] = (), cross: Cross | None = None
) -> Built | Outcome:
    """Build the sample ``source`` in the check's folder, or say why that is not possible."""
    kit = toolkit(context)
    if kit is None:
        return skipped("no nvcc was found, so nothing can be built", "`gpustack install cuda`")
    host = HostCompiler(path=cross.compiler) if cross else compiler(context)
    if host.path is None:
        return _no_compiler(kit, host.seen, host.wanted)
    (file,) = place(context.folder, source)
    program = context.folder / file.stem
    end = context.run(
        kit.nvcc, "-std=c++14", "-ccbin", host.path, *targets(context), *options,
        *_includes(uses), "-o", str(program), str(file), *_libraries(uses), *_own_libraries(kit, cross),
        timeout=BUILD_S,
    )  # fmt: skip
    if end.code != 0:
        return not_built(context, end, kit, f"{host.path} {host.version}".strip(), host.chosen_by)
    return Built(program=program, end=end, folders=tuple(str(home.library.parent) for home in uses))


def _includes(uses: tuple[Home, ...]) -> list[str]:
    """The folders of headers; naming the compiler's own would change the order in which it looks."""
    return [f"-I{home.include}" for home in uses if str(home.include) != "/usr/include"]


def _libraries(uses: tuple[Home, ...]) -> list[str]:
    """The libraries by file, through the linker: nvcc itself takes no name that ends in a version, as wheels have."""
    return [word for home in uses for word in ("-Xlinker", str(home.library))]


def _own_libraries(kit: Toolkit, cross: Cross | None) -> list[str]:
    """The folder of the runtime's library where nvcc does not look by itself: wheels call it lib, nvcc lib64."""
    if cross is not None:
        return ["--target-directory", cross.folder, f"-L{kit.root}/targets/{cross.folder}/lib"]
    folder = kit.root / "lib"
    return [f"-L{folder}"] if (folder / "libcudart_static.a").is_file() and not (kit.root / "lib64").exists() else []


def _no_compiler(kit: Toolkit, seen: tuple[str, ...], wanted: str) -> Outcome:
    if not seen:
        return skipped("no g++ was found; nvcc needs a host compiler to build programs", "install g++")
    return failed(
        f"no g++ here is one that nvcc of CUDA {kit.release} accepts: there is {', '.join(seen)}",
        f"install g++ {wanted} beside it; gpustack takes it by itself" if wanted else "install an older g++",
        expected=f"g++ {wanted}" if wanted else "",
        actual=", ".join(seen),
    )


def not_built(context: Context, end: Finished, kit: Toolkit, host: str, chosen_by: str) -> Outcome:
    """Why nvcc did not build, by what it wrote."""
    evidence = evidence_of(end, work=context.work)
    if end.code is None:
        return errored(f"nvcc: {end.error}", "", evidence=evidence)
    text = end.out + end.err
    if "unsupported GNU version" in text or "unsupported clang version" in text:
        return failed(
            f"nvcc of CUDA {kit.release} refuses the host compiler {host}",
            "unset NVCC_CCBIN, or let it name a g++ that this nvcc accepts (`gpustack verify cuda` says which)"
            if chosen_by else "install an older g++ beside it",
            evidence=evidence,
        )  # fmt: skip
    missing = _missing_header(text)
    if missing:
        return failed(
            f"the header {missing} is missing",
            "install the development package that brings it (for CUDA's own: `gpustack install cuda`)",
            evidence=evidence,
        )
    if chosen_by and ("host compiler" in text.lower() or "Failed to preprocess" in text or not text.strip()):
        return failed(
            f"the host compiler that {chosen_by} names, {host}, does not work with nvcc",
            f"unset {chosen_by}, or let it name a g++ that this nvcc accepts",
            evidence=evidence,
        )
    if "Unsupported gpu architecture" in text or "is not defined for option 'gpu-architecture'" in text:
        return failed(
            f"nvcc of CUDA {kit.release} does not build for the GPUs here", "`gpustack install cuda`", evidence=evidence
        )
    return _not_linked(text, evidence) or failed(
        f"nvcc does not build it: {_first_error(text) or first_line(end)}", evidence=evidence
    )


def _not_linked(text: str, evidence: dict[str, str]) -> Outcome | None:
    """What the linker lacked; None where it was not the linker that failed."""
    library = re.search(r"cannot find -l([\w.+-]+)", text)
    if library:
        return failed(
            f"the linker finds no lib{library[1]}",
            f"install the development package that brings lib{library[1]}.so or lib{library[1]}.a",
            evidence=evidence,
        )
    symbols = list(dict.fromkeys(re.findall(r"undefined reference to [`'](\w+)", text)))
    if symbols:
        more = f" and {len(symbols) - 1} more" if len(symbols) > 1 else ""
        return failed(
            f"none of the libraries that it is linked with holds {symbols[0]}{more}",
            "a library is missing or of another release: install all of one release, libraries and headers",
            evidence=evidence,
        )
    return None


def _missing_header(text: str) -> str:
    for line in text.splitlines():
        if "No such file or directory" in line and "fatal error:" in line:
            return line.partition("fatal error:")[2].partition(":")[0].strip()
        if "could not open source file" in line or "cannot open source file" in line:
            return line.partition('"')[2].partition('"')[0]
    return ""


def _first_error(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if "error" in line.lower()), "")
