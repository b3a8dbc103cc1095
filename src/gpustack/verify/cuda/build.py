"""Builds a sample with the host's own tools: nvcc with the host compiler of the matrix, libraries by their files."""

import os
import re
from pathlib import Path

from msgspec import Struct

from gpustack.system.run import Finished
from gpustack.verify.cuda.toolchain import Home, HostCompiler, Toolkit, gencode_options, select_compiler, select_toolkit
from gpustack.verify.declare import Context, Outcome, errored, failed, skipped
from gpustack.verify.frame.commands import evidence_of, first_line
from gpustack.verify.frame.probes import parse_lines
from gpustack.verify.samples import place

BUILD_S = 240.0
"""Time limit of nvcc, in seconds."""


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
    """Build the sample ``source`` in the check's folder; the outcome where it cannot be built."""
    kit = select_toolkit(context)
    if kit is None:
        return skipped("no nvcc was found to build a program", "`gpustack install cuda`")
    host = HostCompiler(path=cross.compiler) if cross else select_compiler(context)
    if host.path is None:
        return _no_compiler(kit, host.seen, host.wanted)
    (file,) = place(context.folder, source)
    program = context.folder / file.stem
    end = context.run(
        kit.nvcc, "-std=c++14", "-ccbin", host.path, *gencode_options(context), *options,
        *_includes(uses), "-o", str(program), str(file), *_libraries(uses), *_own_libraries(kit, cross),
        timeout=BUILD_S,
    )  # fmt: skip
    if end.code != 0:
        return build_failure(context, end, kit, f"{host.path} {host.version}".strip(), host.chosen_by)
    return Built(program=program, end=end, folders=tuple(str(home.library.parent) for home in uses))


def stops_at(end: Finished) -> str | None:
    """What a sample proves that stops at its first call of CUDA for want of a GPU; None where it does not."""
    broken = next((line for line in parse_lines(end.out) if str(line.get("step", "")).startswith("cuda ")), None)
    if broken is None or broken["code"] not in _NO_GPU:
        return None
    return f"compiled and linked; not run: no GPU here (it starts, and stops at {broken['name']})"


_NO_GPU = {34, 35, 100}
"""What CUDA answers where there is no driver, no GPU, or the toolkit's stub in place of a driver."""


def _includes(uses: tuple[Home, ...]) -> list[str]:
    """The folders of headers; naming the compiler's own would change its search order."""
    return [f"-I{home.include}" for home in uses if str(home.include) != "/usr/include"]


def _libraries(uses: tuple[Home, ...]) -> list[str]:
    """The libraries by file, through the linker: nvcc itself rejects names that end in a version, as wheels have."""
    return [word for home in uses for word in ("-Xlinker", str(home.library))]


def _own_libraries(kit: Toolkit, cross: Cross | None) -> list[str]:
    """The folder of the runtime's library where nvcc does not search by itself: wheels call it lib, nvcc lib64."""
    if cross is not None:
        return ["--target-directory", cross.folder, f"-L{kit.root}/targets/{cross.folder}/lib"]
    folder = kit.root / "lib"
    return [f"-L{folder}"] if (folder / "libcudart_static.a").is_file() and not (kit.root / "lib64").exists() else []


def _no_compiler(kit: Toolkit, seen: tuple[str, ...], wanted: str) -> Outcome:
    if not seen:
        return skipped("no g++ was found; nvcc requires a host compiler", "install g++")
    return failed(
        f"nvcc of CUDA {kit.release} supports none of the installed compilers: {', '.join(seen)}",
        f"install g++ {wanted} as well; gpustack selects it" if wanted else "install an older g++",
        expected=f"g++ {wanted}" if wanted else "",
        actual=", ".join(seen),
    )


def build_failure(context: Context, end: Finished, kit: Toolkit, host: str, chosen_by: str) -> Outcome:
    """Why nvcc failed, by its output."""
    evidence = evidence_of(end, work=context.work)
    if end.code is None:
        return errored(f"nvcc: {end.error}", "", evidence=evidence)
    text = end.out + end.err
    if "unsupported GNU version" in text or "unsupported clang version" in text:
        return failed(
            f"nvcc of CUDA {kit.release} does not support the host compiler {host}",
            "unset NVCC_CCBIN, or set it to a g++ that this nvcc supports (see `gpustack verify cuda`)"
            if chosen_by else "install an older g++ as well",
            evidence=evidence,
        )  # fmt: skip
    missing = _missing_header(text)
    if missing:
        return failed(
            f"the header {missing} is missing",
            "install the development package that contains it (for CUDA's headers: `gpustack install cuda`)",
            evidence=evidence,
        )
    if chosen_by and ("host compiler" in text.lower() or "Failed to preprocess" in text or not text.strip()):
        return failed(
            f"the host compiler set in {chosen_by}, {host}, does not work with nvcc",
            f"unset {chosen_by}, or set it to a g++ that this nvcc supports",
            evidence=evidence,
        )
    if "Unsupported gpu architecture" in text or "is not defined for option 'gpu-architecture'" in text:
        return failed(
            f"nvcc of CUDA {kit.release} does not support the host's GPUs", "`gpustack install cuda`", evidence=evidence
        )
    return _not_linked(text, evidence) or failed(
        f"nvcc failed: {_first_error(text) or first_line(end)}", evidence=evidence
    )


def _not_linked(text: str, evidence: dict[str, str]) -> Outcome | None:
    """What the linker did not find; None where the linker did not fail."""
    library = re.search(r"cannot find -l([\w.+-]+)", text)
    if library:
        return failed(
            f"the linker does not find lib{library[1]}",
            f"install the development package that contains lib{library[1]}.so or lib{library[1]}.a",
            evidence=evidence,
        )
    symbols = list(dict.fromkeys(re.findall(r"undefined reference to [`'](\w+)", text)))
    if symbols:
        more = f" and {len(symbols) - 1} more" if len(symbols) > 1 else ""
        return failed(
            f"none of the linked libraries defines {symbols[0]}{more}",
            "a library is missing or from another release: install libraries and headers of one release",
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
