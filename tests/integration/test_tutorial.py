"""docs/tutorial.md, as it stands: each block of commands runs, and prints the lines of the block below it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.field import Ask, Scene
from tests.integration.roots import Root
from tests.integration.test_bundles import as_system, local, mirror

from gpustack import resources

__all__ = ["local", "mirror"]

PAGE = resources.folder("matrices").parent / "docs" / "tutorial.md"
ELSEWHERE = {
    "git clone ": "the tests run in the clone",
    "cd gpustack": "the same",
    "python3 ci/start.py ": "it makes the environment that the tests run in",
    "export PATH": "the tests have a program of that name",
    "debootstrap ": "tests/integration/roots.py makes the tree of this release",
    "gpustack verify ": "docs/observed-h200.md: it requires a GPU",
}
"""Lines that are not run here, and who does."""

# The vendor's repositories are folders on loopback, signed by the tests' own key: only its checksum differs.
PROGRAM = """#!/bin/sh
case $1 in plan|explain) set -- "$@" --matrices {overlay} ;; esac
exec {python} -m gpustack "$@"
"""


def blocks() -> Iterator[tuple[str, list[str]]]:
    """The commands of each block, and the lines that they print."""
    text = PAGE.read_text(encoding="utf-8")
    for match in re.finditer(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", text, re.MULTILINE | re.DOTALL):
        yield match[1], (match[2] or "").splitlines()


@pytest.mark.gate
def test_every_block_of_the_tutorial_runs_and_prints_what_it_says(
    scene: Callable[..., Scene],
    enter: Callable[..., Root],
    mirror: Callable[[Scene], dict[str, str]],
    tmp_path: Path,
) -> None:
    host = scene(Ask("debian12", ("driver", "cuda", "cudnn"), ("--gpu", "L4", "--method", "network")))
    as_system(enter(host, "tree"), host)
    program = tmp_path / "bin" / "gpustack"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(overlay=host.overlay, python=sys.executable))
    program.chmod(0o755)
    environment = {**mirror(host), "COLUMNS": "300"}
    environment["PATH"] = f"{program.parent}:{environment['PATH']}"
    for commands, lines in blocks():
        kept = "".join(line for line in commands.splitlines(keepends=True) if not line.startswith(tuple(ELSEWHERE)))
        done = subprocess.run(
            ["sh", "-e", "-c", kept], check=False, capture_output=True, text=True, env=environment, cwd=tmp_path
        )
        printed = " ".join(f"{done.stdout} {done.stderr}".split())
        code = next((int(line.split()[-1]) for line in lines if line.startswith("exit code ")), 0)
        assert done.returncode == code, (kept, printed[-2000:])
        missing = [line for line in lines if not line.startswith("exit code ") and line not in printed]
        assert not missing, (kept, printed[:3000])
