"""What `matrix show` prints about a version fits a screen, and --all prints every row."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest
from tests.cli.conftest import Call

from gpustack.cli.matrix_summary import summary
from gpustack.matrix.index import load_matrix
from gpustack.matrix.show import everything_about
from gpustack.model.facts import COMPONENTS


@pytest.mark.parametrize("width", [60, 80, 132])
def test_every_release_fits_a_screen(width: int) -> None:
    facts = load_matrix()
    for component in COMPONENTS:
        releases = facts.releases(component)
        for release in {releases[0].version, releases[len(releases) // 2].version, releases[-1].version}:
            rows = everything_about(facts, component, f"=={release}")
            lines = summary(rows, component, f"{component}=={release}", width).splitlines()
            assert len(lines) <= 40, (component, release)
            assert max(map(len, lines)) <= width, (component, release)
            assert f"{component}=={release}" in lines[-1]


def test_a_range_fits_a_screen_too(call: Call) -> None:
    for asked in ("cuda>=12", "driver<600", "cudnn==8.9.6"):
        assert len(call("matrix", "show", asked).out.splitlines()) <= 40


def test_a_terminal_gets_lines_of_its_width(environment: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    command = [sys.executable, "-m", "gpustack", "matrix", "show", "cuda==13.0.2"]
    with subprocess.Popen(command, stdout=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        try:
            while more := os.read(ours, 65536):
                shown += more
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    lines = shown.decode().splitlines()
    assert process.returncode == 0
    assert 80 < max(map(len, lines)) <= 100


def test_the_screen_says_what_decides(call: Call) -> None:
    shown = call("matrix", "show", "cuda==13.0.2").out
    assert shown.startswith("CUDA 13.0.2: ")
    assert "requires driver 580 or newer (os linux)" in shown
    assert "cuda-redist.archives" in shown
    assert "108 rows" in shown


def test_all_prints_every_row_with_its_sources(call: Call) -> None:
    rows = json.loads(call("matrix", "show", "cudnn==8.9.6.50", "--format", "json").out)
    lines = call("matrix", "show", "cudnn==8.9.6.50", "--all").out.splitlines()
    assert len([line for line in lines if not line.startswith(" ")]) == len(rows)
    assert sum(line.startswith("    [") for line in lines) >= len(rows)
