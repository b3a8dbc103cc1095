"""The folders from which a Python imports packages, found by files: starting a Python costs more."""

# ruff: noqa: PTH111, PTH118, PTH120, PTH123, PTH208 (dozens of folders at every start: text is quicker)

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpustack.system.paths import glob

if TYPE_CHECKING:
    from gpustack.verify.declare import Context

_BELOW = (
    "lib/python3*/site-packages",
    "lib64/python3*/site-packages",
    "lib/python3*/dist-packages",
    "local/lib/python3*/dist-packages",
    "local/lib/python3*/site-packages",
)
_SHIMS = ("versions/*", "installs/python/*")
"""Where managers of several Pythons (pyenv, asdf, mise) keep them, next to their folder of shims."""


def package_folders(python: str) -> tuple[str, ...] | None:
    """The folders of packages of ``python``: this one, or a program on the PATH; () without such a program.

    None where files are not enough: the program is an unknown script, which has to be run.
    """
    if python == sys.executable:
        return tuple(name for name in sys.path if name.startswith("/"))
    place = _on_path(python)
    if not place:
        return ()
    prefixes = _prefixes(place)
    if prefixes is None:
        return None
    own = [name for name in os.environ.get("PYTHONPATH", "").split(os.pathsep) if name.startswith("/")]
    found = [path for prefix in dict.fromkeys(prefixes) for below in _BELOW for path in glob(below, prefix)]
    folders = dict.fromkeys((*own, *sorted(found)))
    return tuple(dict.fromkeys((*folders, *(path for folder in folders for path in _added(folder)))))


def search_path(context: Context, python: str) -> tuple[str, ...]:
    """The folders from which ``python`` imports, as it reports itself."""
    listed = context.run(python, "-c", "import sys; print('\\n'.join(sys.path))", timeout=20).out
    return tuple(line for line in listed.splitlines() if line.startswith("/"))


def _prefixes(place: str) -> tuple[str, ...] | None:
    """The prefixes whose packages the program at ``place`` may import; None where it is a script of unknown kind."""
    user, above = os.path.expanduser("~/.local"), os.path.dirname(os.path.dirname(place))
    if not _is_script(place):
        real = os.path.dirname(os.path.dirname(os.path.realpath(place)))
        return (above, real, user)
    managed = [path for below in _SHIMS for path in glob(below, above)]
    # A manager may be configured to use the system's Python.
    return (*managed, "/usr", user) if managed else None


def _on_path(program: str) -> str:
    if program.startswith("/"):
        return program if os.access(program, os.X_OK) else ""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return next((path for path in (f"{one}/{program}" for one in folders) if os.access(path, os.X_OK)), "")


def _is_script(place: str) -> bool:
    try:
        with open(place, "rb") as stream:
            return stream.read(2) == b"#!"
    except OSError:
        return True


def _added(folder: str) -> Iterator[str]:
    """The folders that the path files of a folder of packages add."""
    for file in glob("*.pth", folder):
        try:
            with open(file, encoding="utf-8", errors="replace") as stream:
                lines = stream.read(1 << 16).splitlines()
        except OSError:
            continue
        for line in lines:
            if line.strip() and not line.startswith(("#", "import ", "import\t")):
                yield os.path.normpath(os.path.join(folder, line.strip()))


def has_name(folders: tuple[str, ...], start: str) -> bool:
    """Whether the name of anything in these folders begins with ``start``."""
    return any(name.startswith(start) for folder in folders for name in _names(folder))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
