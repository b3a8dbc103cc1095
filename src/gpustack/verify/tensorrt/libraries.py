"""Every TensorRT on this machine: where its libraries are, and which one C++ and Python programs load."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpustack.system.paths import glob
from gpustack.system.run import Finished
from gpustack.verify.declare import Context
from gpustack.verify.frame.commands import signal_in_words
from gpustack.verify.frame.pythons import has_name, package_folders, search_path

_NAME = re.compile(r"^(libnvinfer|libtensorrt_rtx)\.so\.(\d+)(?:\.(\d+(?:\.\d+)*))?$")
_STARTS = ("libnvinfer.", "libtensorrt_rtx.")
_FOLDERS = (
    "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib", "usr/local/lib",
    "usr/local/tensorrt*/lib", "usr/local/TensorRT*/lib", "opt/tensorrt*/lib", "opt/TensorRT*/lib",
    "usr/local/cuda*/targets/*/lib",
)  # fmt: skip
_WHEELS = ("tensorrt_libs", "tensorrt", "tensorrt_rtx_libs")
MODULES = ("tensorrt", "tensorrt_bindings", "tensorrt_rtx", "tensorrt_rtx_bindings")
"""Names under which Python imports TensorRT and TensorRT-RTX, with and without their meta packages."""

CHILD = Path(__file__).with_name("child.py")


class Library(Struct, frozen=True, kw_only=True):
    """One libnvinfer (or libtensorrt_rtx). ``major`` is its soname's number; ``from_wheel`` for one Python only."""

    path: str
    name: str
    major: int
    from_wheel: bool = False


class Binding(Struct, frozen=True, kw_only=True):
    """A Python module of TensorRT with the library that it loads; ``error`` says why it cannot be imported."""

    python: str
    module: str
    version: str = ""
    libraries: tuple[str, ...] = ()
    error: str = ""

    @property
    def called(self) -> str:
        return f"Python's {self.module} {self.version}"

    @property
    def is_rtx(self) -> bool:
        return self.module.startswith("tensorrt_rtx")


def search_libraries(search: str, packages: Iterable[str], root: Path = Path("/")) -> tuple[Library, ...]:
    """Every TensorRT library: in the folders of ``search`` (an LD_LIBRARY_PATH), of the system, and in wheels."""
    found: dict[str, Library] = {}
    folders = [(root / name.lstrip("/"), False) for name in search.split(os.pathsep) if name.startswith("/")]
    folders += [(path, False) for pattern in _FOLDERS for path in map(Path, glob(pattern, root))]
    folders += [(Path(base) / name, True) for base in packages for name in _WHEELS]
    for folder, from_wheel in folders:
        try:
            names = sorted(name for name in os.listdir(folder) if name.startswith(_STARTS))  # noqa: PTH208 (of thousands)
        except OSError:
            continue
        for name in names:
            match = _NAME.match(name)
            if match is None:
                continue
            path = folder / name
            key = os.path.realpath(path)
            found.setdefault(key, Library(path=str(path), name=match[1], major=int(match[2]), from_wheel=from_wheel))
    return tuple(found.values())


def run_child(
    context: Context, python: str, request: dict[str, Any], *, timeout: float = 60.0, script: Path = CHILD
) -> tuple[Any, Finished]:
    """Run ``request`` with ``python`` in a process of its own: the answer (None without one), and how it ended."""
    import json  # noqa: PLC0415 (most hosts have no TensorRT)

    body = json.dumps(request)
    if context.work is not None:
        place = context.work / f"request-{request['do']}.json"
        place.write_text(body, encoding="utf-8")
        end = context.run(python, str(script), str(place), timeout=timeout)
    else:
        # A check that only reads leaves no file behind: bash passes the request through a descriptor.
        end = context.run("bash", "-c", 'exec "$0" "$1" <(printf %s "$2")', python, str(script), body, timeout=timeout)
    lines = end.out.strip().splitlines()
    try:
        return (json.loads(lines[-1]) if end.code == 0 and lines else None), end
    except json.JSONDecodeError:
        return None, end


def failure_reason(end: Finished) -> str:
    """Why a child printed no answer: Python's last line, or the signal that ended it."""
    if end.code is None:
        return end.error
    if end.code < 0:
        return f"it crashed ({signal_in_words(-end.code)})"
    lines = end.err.strip().splitlines()
    return lines[-1] if lines else f"exit status {end.code}"


def candidate_pythons(context: Context) -> tuple[str, ...]:
    """The Pythons to search: the one that the user specified, else python3 of PATH and this one."""
    import sys  # noqa: PLC0415 (only this function reads its path)

    given = context.given.get("python")
    if given:
        return (given,)
    return tuple(dict.fromkeys(("python3", sys.executable)))


def find_bindings(context: Context) -> tuple[Binding, ...]:
    """The TensorRT modules of these Pythons, found once; modules that are not installed are ignored."""

    def find() -> tuple[Binding, ...]:
        found: list[Binding] = []
        for python in candidate_pythons(context):
            folders = _folders(context, python)
            if folders is not None and not has_name(folders, "tensorrt"):
                continue
            for module in MODULES:
                answer, end = run_child(context, python, {"do": "info", "module": module})
                if answer is not None:
                    found.append(
                        Binding(
                            python=python,
                            module=module,
                            version=answer["version"],
                            libraries=tuple(answer["libraries"]),
                        )
                    )
                elif end.code is not None and "No module named" not in failure_reason(end):
                    found.append(Binding(python=python, module=module, error=failure_reason(end)))
        return tuple(_once(found))

    return context.shared.once("tensorrt bindings", find)


def _folders(context: Context, python: str) -> tuple[str, ...] | None:
    """The folders from which ``python`` imports; None if it must be run to find out, as a specified one must."""
    if context.given.get("python"):
        return None
    return context.shared.once(f"packages of {python}", lambda: package_folders(python))


def _once(found: list[Binding]) -> list[Binding]:
    """The bindings without further names of the same module in the same place."""
    kept: dict[tuple[str, tuple[str, ...], str, bool], Binding] = {}
    for one in found:
        kept.setdefault((one.version, one.libraries, one.error, one.is_rtx), one)
    return list(kept.values())


def find_libraries(context: Context) -> tuple[Library, ...]:
    """Every TensorRT library of this machine, found once."""

    def find() -> tuple[Library, ...]:
        packages: list[str] = []
        for python in candidate_pythons(context):
            folders = _folders(context, python)
            packages += search_path(context, python) if folders is None else folders
        return search_libraries(os.environ.get("LD_LIBRARY_PATH", ""), dict.fromkeys(packages))

    return context.shared.once("tensorrt libraries", find)


def load_as_cpp(context: Context, major: int, name: str = "libnvinfer") -> tuple[str, str] | None:
    """The version and path of the ``name``.so.``major`` that a C++ program loads; None where the loader finds none."""
    answer, _ = run_child(context, candidate_pythons(context)[0], {"do": "load", "soname": f"{name}.so.{major}"})
    if answer is None:
        return None
    return version_text(int(answer["number"])), next(iter(answer["libraries"]), "")


def version_text(number: int) -> str:
    """The release of getInferLibVersion's number: 8601 is 8.6.1, 101303 is 10.13.3."""
    if number >= 100000:
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return f"{number // 1000}.{number // 100 % 10}.{number % 100}"
