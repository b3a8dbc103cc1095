"""How the tests of the command line run it: in this process for the bulk, as the real program where that matters."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from gpustack import resources
from gpustack.cli import main

SOURCES = resources.folder("matrices").parent / "src"


class Ended(NamedTuple):
    """How a command line ended."""

    code: int
    out: str
    err: str

    def is_told(self, code: int) -> bool:
        """Whether it ended as a refusal has to: the code, no document, one error, what to do next, no traceback."""
        first, *rest = self.err.splitlines() or [""]
        return (
            self.code == code
            and not self.out
            and first.startswith("error[")
            and not first.startswith("error[internal-fault]")
            and any(line.startswith("hint: ") for line in rest)
            and not any(line.startswith(("error[", "Traceback")) for line in rest)
        )


Call = Callable[..., Ended]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run a command line in this process."""

    def run(*arguments: str) -> Ended:
        capsys.readouterr()
        code = main(list(arguments))
        return Ended(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """The environment of the program: ours without what would change its words, plus the sources."""
    left_out = ("LC_", "LANG", "GPUSTACK", "NO_COLOR", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    facts = {name: os.environ[name] for name in ("GPUSTACK_FACTS", "GPUSTACK_MAX_FACTS_AGE")}
    return {**kept, **facts, "PYTHONPATH": str(SOURCES), "LC_ALL": "C.UTF-8"}


@pytest.fixture
def program(environment: dict[str, str], tmp_path: Path) -> Call:
    """Run the real program in a folder of its own."""

    def run(*arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None, stdin: bytes = b"") -> Ended:
        done = subprocess.run(
            [sys.executable, "-m", "gpustack", *arguments],
            input=stdin,
            capture_output=True,
            env={**environment, **(env or {})},
            cwd=cwd or tmp_path,
            timeout=60,
            check=False,
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run
