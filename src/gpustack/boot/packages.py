"""Local package files and the package manager's own database, which stays true: nothing is put past it."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from gpustack.errors import GpustackError, UnsupportedError, UsageError
from gpustack.plan.managers import local_files
from gpustack.system.run import Finished, Runner

PATIENCE = 900.0
"""Seconds for one call: packages with DKMS build their module."""

_ABSENT = {"n", "c"}
"""dpkg's states of a package without files: not installed, or configuration only."""

_QUIET = {"DEBIAN_FRONTEND": "noninteractive"}


class PackageFile(Struct, frozen=True, kw_only=True):
    """One package: its name and version in the database, and its file next to ``set.json``."""

    name: str
    version: str
    file: str
    sha256: str = ""


class Manager:
    """The package manager of a tree."""

    def __init__(self, tool: local_files.Tool, root: str, runner: Runner) -> None:
        self._tool = tool
        self._root = root
        self._runner = runner

    def read(self, path: Path) -> PackageFile:
        """Name and version of a package file. Raises UsageError if it is none."""
        done = self._runner.run(local_files.describe(self._tool, str(path)), timeout=60)
        name, _, version = done.out.strip().partition("\t")
        if done.code != 0 or not name or not version:
            msg = f"it is no package of this system's package manager: {(done.error or done.err).strip()[:200]}"
            raise UsageError(msg, code="not-that-file", where=str(path), hint="give .deb or .rpm files of this system")
        return PackageFile(name=name, version=version, file=path.name)

    def installed(self, names: list[str]) -> dict[str, str]:
        """The versions of those that are installed; "" for one that dpkg began to install or to remove."""
        # Both end with 1 if one of them is unknown.
        done = self._runner.run(local_files.query(self._tool, self._root, names), timeout=PATIENCE)
        if done.code is None:
            raise _refused(done)
        rows = [line.split("\t") for line in done.out.splitlines()]
        if self._tool == "dpkg":
            states = {row[0]: (row[1], row[2].strip()) for row in rows if len(row) == 3}
            there = {name: found for name, found in states.items() if found[1][1:2] not in _ABSENT}
            return {name: version if state in {"ii", "hi"} else "" for name, (version, state) in there.items()}
        return {row[0]: row[1] for row in rows if len(row) == 2}

    def remove(self, names: list[str]) -> None:
        """Raises GpustackError if the manager refuses, as when another package requires one of them."""
        self._must(local_files.remove(self._tool, self._root, names))

    def install(self, files: list[Path]) -> None:
        """Raises GpustackError if the manager refuses."""
        self._must(local_files.install(self._tool, self._root, map(str, files)))

    def _must(self, argv: tuple[str, ...]) -> None:
        done = self._runner.run(argv, timeout=PATIENCE, env=_QUIET)
        if done.code != 0:
            raise _refused(done)


def _refused(done: Finished) -> GpustackError:
    said = (done.error or done.err.strip() or done.out.strip()).splitlines()
    msg = f"{' '.join(done.argv[:3])} ... ended with {done.code}: {' / '.join(said[-8:])}"
    return GpustackError(msg, code="command-failed", where="boot-select", hint="resolve what it says")


def manager_of(root: str, runner: Runner) -> Manager:
    """The package manager of a tree. Raises UnsupportedError if it has none that is known here."""
    if Path(f"{root}/var/lib/dpkg/status").is_file():
        return Manager("dpkg", root, runner)
    if any(Path(f"{root}{path}").is_dir() for path in ("/usr/lib/sysimage/rpm", "/var/lib/rpm")):
        return Manager("rpm", root, runner)
    msg = "the tree has neither dpkg's nor rpm's database"
    raise UnsupportedError(msg, code="no-package-manager", where=root or "/", hint="driver sets are packages of these")
