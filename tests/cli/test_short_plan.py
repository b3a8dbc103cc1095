"""On a terminal `plan` is short and coloured; a pipe, a file and `--format table` have all of it, without colour."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable

HOST = ("--os", "ubuntu24.04", "--gpu", "L4")
ESCAPE = re.compile("\x1b\\[[0-9;]*m")


def on_terminal(environment: dict[str, str], *words: str) -> str:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 90, 0, 0))
    command = [sys.executable, "-m", "gpustack", "plan", "cuda", *HOST, *words]
    with subprocess.Popen(command, stdout=theirs, env={**environment, "TERM": "xterm"}) as process:
        os.close(theirs)
        shown = b""
        try:
            while more := os.read(ours, 65536):
                shown += more
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    assert process.returncode == 0
    return shown.decode().replace("\r\n", "\n")


def test_a_terminal_gets_the_short_form(environment: dict[str, str], call: Callable) -> None:
    shown = on_terminal(environment)
    plain = ESCAPE.sub("", shown)
    whole = call("plan", "cuda", *HOST).out
    assert shown != plain
    assert max(map(len, plain.splitlines())) <= 90
    titles = re.findall(r"^ {1,4}\d+ [+~.-] \S+", whole, re.MULTILINE)
    assert titles == re.findall(r"^ {1,4}\d+ [+~.-] \S+", plain, re.MULTILINE)
    assert "$ env" in whole
    assert "$ env" not in plain
    assert plain.endswith(
        "1 file to download: 1 of unknown size\n`--format table` shows every step with its reason and its commands\n"
    )


def test_all_of_it_on_request(environment: dict[str, str]) -> None:
    assert "$ env" in on_terminal(environment, "--format", "table")


def test_colours_say_nothing_alone(environment: dict[str, str], call: Callable) -> None:
    coloured = call("plan", "cuda", *HOST, "--color", "always").out
    assert "\x1b[1mStack\x1b[0m" in coloured
    assert "\x1b[32m  +\x1b[0m driver" in coloured
    assert ESCAPE.sub("", coloured) == call("plan", "cuda", *HOST).out
    assert not ESCAPE.search(on_terminal({**environment, "NO_COLOR": "1"}))
    assert not ESCAPE.search(on_terminal({**environment, "NO_COLOR": "1", "FORCE_COLOR": "1"}))
    assert ESCAPE.search(on_terminal({**environment, "TERM": "dumb", "FORCE_COLOR": "1"}))
