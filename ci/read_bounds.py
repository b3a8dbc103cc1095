"""Read again what NVIDIA's toolkit wheels say of compilers, C library and GPUs, and compare it with the facts.

    .venv/bin/python ci/read_bounds.py FOLDER [--download]

FOLDER holds wheels of the projects in PROJECTS; ``--download`` lets pip fetch those that are missing there (about
1.5 GB for all). Read are crt/host_config.h (gcc, clang, Visual C++), crt/math_functions.h (the first glibc whose
declarations clash), what ptxas accepts (compute capabilities) and the tags of the wheels in the facts (oldest glibc).
Prints each difference from the release rows and the rules (matrices/cuda.yaml, nccl.yaml); exit code 1 where there is
one, 2 where nothing was read.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

from gpustack.matrix.index import Matrix
from gpustack.matrix.store import open_store
from gpustack.model.offer import Wheel
from gpustack.versions import is_within, version

PROJECTS = ("nvidia-cuda-nvcc-cu11", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc", "nvidia-cuda-crt")
TAGS = ("manylinux_2_28", "manylinux_2_27", "manylinux2014", "manylinux2010", "manylinux1")
DECLARED_SINCE = {"2.41": ("sinpi", "cospi"), "2.42": ("rsqrt",)}
"""Functions of C23 that glibc declares for C++ too, by the glibc that began it."""
TAGGED = ("cuda", "nccl")
"""Components whose rules on the oldest glibc follow the tags; cuDNN's come from its libraries, which ask for less."""
OLDEST_TAGGED = 17
"""Wheels tagged for glibc 2.17 load on everything that the rules speak of: there is no floor to check."""


class Bounds(NamedTuple):
    """What one toolkit's wheels say; None or () where they do not say it."""

    gcc_max: int | None = None
    clang_max: int | None = None
    msvc_min: int | None = None
    msvc_below: int | None = None
    glibc_below: str | None = None
    capabilities: tuple[str, ...] = ()


def host_compilers(host_config: str) -> Bounds:
    """The newest gcc and clang and the Visual C++ that crt/host_config.h lets pass."""
    gcc = re.search(r"^#if __GNUC__ > (\d+)", host_config, re.MULTILINE)
    # The test for clang on Linux stands behind the one that names the other systems.
    ordinary = host_config[host_config.index("#if defined(__clang__)") :]
    clang = re.search(r"^#if \(__clang_major__ >= (\d+)\)", ordinary, re.MULTILINE)
    msvc = re.search(r"^#if _MSC_VER < (\d+) \|\| _MSC_VER >= (\d+)", host_config, re.MULTILINE)
    if not (gcc and clang and msvc):
        msg = "host_config.h is not written as those before it"
        raise ValueError(msg)
    return Bounds(int(gcc[1]), int(clang[1]) - 1, int(msvc[1]), int(msvc[2]))


def first_clashing_glibc(math_functions: str) -> str | None:
    """The first glibc whose own declarations differ: those functions are declared with no exception specifier."""
    for release, names in DECLARED_SINCE.items():
        for name in names:
            declared = re.search(rf"^extern .*\b{name}\(double x\)(.*);", math_functions, re.MULTILINE)
            if declared is None:
                msg = f"math_functions.h does not declare {name} as those before it"
                raise ValueError(msg)
            if not declared[1].strip():
                return release
    return None


def accepted_capabilities(help_text: str) -> tuple[str, ...]:
    """The compute capabilities that ``ptxas --help`` lists for --gpu-name."""
    allowed = re.search(r"--gpu-name.*?Allowed values for this option:(.*?)Default value", help_text, re.DOTALL)
    if allowed is None:
        msg = "ptxas --help lists no values for --gpu-name"
        raise ValueError(msg)
    numbers = sorted({int(digits) for digits in re.findall(r"sm_(\d+)", allowed[1])})
    return tuple(f"{number // 10}.{number % 10}" for number in numbers)


def measure(folder: Path) -> dict[str, Bounds]:
    """The bounds of each compiler version whose wheels lie in the folder."""
    found: dict[str, Bounds] = {}
    for path in sorted(folder.glob("nvidia_cuda_*.whl")):
        number = path.name.split("-")[1]
        bounds = found.get(number, Bounds())
        with ZipFile(path) as wheel:
            inside = {name.rpartition("nvidia/")[2].partition("/")[2]: name for name in wheel.namelist()}
            if name := inside.get("include/crt/host_config.h"):
                read = host_compilers(wheel.read(name).decode())
                bounds = read._replace(capabilities=bounds.capabilities)
                glibc = first_clashing_glibc(wheel.read(inside["include/crt/math_functions.h"]).decode())
                bounds = bounds._replace(glibc_below=glibc)
            if name := inside.get("bin/ptxas"):
                bounds = bounds._replace(capabilities=accepted_capabilities(_help_of(wheel.read(name))))
        found[number] = bounds
    return found


def _help_of(ptxas: bytes) -> str:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "ptxas")
        program.write_bytes(ptxas)
        program.chmod(0o755)
        return subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout


def differences(matrix: Matrix, measured: dict[str, Bounds]) -> Iterator[str]:
    """What the facts say otherwise than the wheels."""
    releases = matrix.rows("cuda", "releases", dict)
    for number in sorted(measured, key=lambda text: version(text).key):
        bounds, of_it = measured[number], [row for row in releases if row.get("nvcc") == number]
        if not of_it:
            yield f"nvcc {number}: no release of the facts has it"
        for row in of_it:
            yield from _row_differences(row, bounds)
            yield from _rule_differences(matrix, row["version"], bounds)
    yield from _floor_differences(matrix)


def _row_differences(row: dict[str, Any], bounds: Bounds) -> Iterator[str]:
    listed = tuple(row.get("cc_list", ()))
    if bounds.capabilities and listed != bounds.capabilities:
        yield f"{row['version']}: cc_list {', '.join(listed)}; ptxas accepts {', '.join(bounds.capabilities)}"
    for column in ("gcc_max", "clang_max", "msvc_min", "msvc_below"):
        value = getattr(bounds, column)
        if value is not None and str(value) != row.get(column):
            yield f"{row['version']}: {column} {row.get(column)}; the header has {value}"


def _rule_differences(matrix: Matrix, release: str, bounds: Bounds) -> Iterator[str]:
    """Values on both sides of each bound, asked of the rules."""
    probes: list[tuple[str, str, bool]] = []
    for name, top in (("gcc", bounds.gcc_max), ("clang", bounds.clang_max)):
        probes += [(name, str(top), True), (name, str(top + 1), False)] if top is not None else []
    if bounds.msvc_min is not None and bounds.msvc_below is not None:
        probes += [("msvc", str(bounds.msvc_min), True), ("msvc", str(bounds.msvc_min - 1), False)]
        probes += [("msvc", str(bounds.msvc_below - 1), True), ("msvc", str(bounds.msvc_below), False)]
    if bounds.gcc_max is not None:
        probes += [("glibc", glibc, not _clashes(glibc, bounds.glibc_below)) for glibc in ("2.40", *DECLARED_SINCE)]
    for name, value, wanted in probes:
        if _passes(matrix, ("cuda", release), name, value) != wanted:
            yield f"{release}: the rules {'refuse' if wanted else 'accept'} {name} {value}; the headers do not"


def _clashes(glibc: str, first: str | None) -> bool:
    return first is not None and version(glibc) >= version(first)


def _passes(matrix: Matrix, release: tuple[str, str], name: str, value: str, *, advised: bool = True) -> bool:
    """Whether every rule about this release of a component and a property accepts the value."""
    component, number = release
    advice = set() if advised else {"advised", "compiling"}
    rules = [row for row in matrix.rules(component) if row.needs == name and row.strength not in advice]
    bound = [row for row in rules if is_within(number, row.of.removeprefix(component))]
    return all(any(is_within(value, text) for text in row.any) for row in bound)


def _floor_differences(matrix: Matrix) -> Iterator[str]:
    """Each release of which whole wheel sets are known: the newest glibc that one of its wheels asks for."""
    floors: dict[tuple[str, str], set[str]] = {}
    for row in matrix.rows("wheels", "archives", Wheel):
        if row.component in TAGGED and row.platform == "linux-x86_64" and row.needs_glibc:
            floors.setdefault((row.component, row.version), set()).add(row.needs_glibc)
    for release, found in floors.items():
        floor = max(found, key=lambda text: version(text).key)
        major, minor = version(floor).numbers
        below = f"{major}.{minor - 1}"
        if not _passes(matrix, release, "glibc", floor, advised=False):
            yield f"{' '.join(release)}: the rules refuse glibc {floor}; its wheels load with it"
        elif minor > OLDEST_TAGGED and _passes(matrix, release, "glibc", below, advised=False):
            yield f"{' '.join(release)}: the rules accept glibc {below}; its wheels ask for {floor}"


def download(folder: Path) -> None:
    """Let pip fetch every version of the projects that is not in the folder."""
    platforms = [word for tag in TAGS for word in ("--platform", f"{tag}_x86_64")]
    for project in PROJECTS:
        listed = _pip("index", "versions", project)
        found = re.search(r"Available versions: (.*)", listed)
        for number in found[1].split(", ") if found else ():
            if not list(folder.glob(f"{project.replace('-', '_')}-{number}-*.whl")):
                options = ("--quiet", "--no-deps", "--only-binary=:all:", *platforms, "--dest", str(folder))
                _pip("download", *options, f"{project}=={number}")


def _pip(*words: str) -> str:
    return subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=True).stdout


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--download", action="store_true", help="let pip fetch what is missing")
    asked = parser.parse_args(arguments)
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.download:
        download(asked.folder)
    measured = measure(asked.folder)
    if not measured:
        print(f"{asked.folder} holds no wheel of {', '.join(PROJECTS)}", file=sys.stderr)
        return 2
    found = list(differences(Matrix(open_store()), measured))
    print(*found, f"{len(measured)} compiler versions read, {len(found)} differences", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
