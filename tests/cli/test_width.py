"""Texts for people fit the terminal that shows them; a pipe gets the same text everywhere."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import termios

import pytest

HOST = ("--os", "ubuntu24.04", "--gpu", "RTX 5090")
TEXTS = {
    "plan": ("plan", "cuda", "cudnn", *HOST),
    "check": ("check", "cuda==13.0.2", "driver==550.54.15", *HOST),
    "explain": ("explain", "cuda", "cudnn", *HOST),
    "matrix": ("matrix", "show", "cuda==13.0.2"),
    "verify": ("verify", "driver"),
}


def on_terminal(columns: int, *arguments: str) -> list[str]:
    """The lines that the program writes to a terminal of so many columns."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "gpustack", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "NO_COLOR": "1"},
    ):
        os.close(theirs)
        raw = b""
        try:
            while block := os.read(ours, 65536):
                raw += block
        except OSError:  # Linux reports the end of a terminal so
            pass
    os.close(ours)
    return raw.decode().replace("\r\n", "\n").splitlines()


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("name", TEXTS)
def test_a_line_is_no_wider_than_the_terminal_but_for_a_single_word(name: str, columns: int) -> None:
    lines = on_terminal(columns, *TEXTS[name])
    assert len(lines) > 5
    wide = [line for line in lines if len(line) > columns]
    # What cannot be folded: an address, a checksum, a quoted word of a command.
    assert [line for line in wide if len(line.split()) > 3 and "'" not in line] == []
    assert len(wide) < len(lines) / 4


def test_a_pipe_gets_lines_whole() -> None:
    piped = subprocess.run(
        [sys.executable, "-m", "gpustack", *TEXTS["check"]], capture_output=True, text=True, check=False
    )
    rule = next(line for line in piped.stdout.splitlines() if "Drivers of R520 to R565" in line)
    assert rule.endswith("(compute capability 12.0).")
