"""The real program as a subprocess: streams, signals, colours, tracebacks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HOST = ("--os", "ubuntu24.04", "--gpu", "L4")


def test_a_document_stands_on_standard_output_alone(program: Callable) -> None:
    ended = program("plan", "cuda", *HOST, "--format", "json")
    assert ended.code == 0
    assert json.loads(ended.out)["schema"] == "gpustack/plan/v1"
    assert ended.out.endswith("}\n")


def test_an_error_stands_on_standard_error_alone(program: Callable) -> None:
    ended = program("plan", "cuda", "--os", "ubuntoo24.04")
    assert ended.is_told(4), ended
    assert "ubuntu24.04" in ended.err


def test_a_traceback_comes_only_for_those_who_ask_twice(program: Callable) -> None:
    once = program("plan", "qda", *HOST, "-v")
    assert once.is_told(2), once
    twice = program("plan", "qda", *HOST, "-v", "-v")
    assert twice.code == 2
    assert "Traceback (most recent call last)" in twice.err
    assert twice.err.splitlines()[-1] == "hint: did you mean cuda?"


@pytest.mark.parametrize(("option", "has_color"), [("auto", False), ("never", False), ("always", True)])
def test_colour_is_for_terminals_and_those_who_insist(program: Callable, option: str, has_color: bool) -> None:
    ended = program("verify", "cudnn", "--color", option)
    assert ("\x1b[" in ended.out) is has_color


def test_no_colour_reaches_a_document_or_an_error(program: Callable) -> None:
    for arguments in (("plan", "cuda", *HOST), ("plan", "qda"), ("--help",)):
        ended = program(*arguments, env={"NO_COLOR": "1", "FORCE_COLOR": "1", "TERM": "xterm-256color"})
        assert "\x1b[" not in ended.out + ended.err


def test_a_reader_who_leaves_early_is_no_error(environment: dict[str, str]) -> None:
    for arguments in (("matrix", "show", "cudnn"), ("--help",), ("plan", "cuda", *HOST)):
        process = start(environment, *arguments)
        assert process.stdout is not None
        process.stdout.close()
        _, err = process.communicate(timeout=60)
        assert process.returncode in {0, 1}
        assert err == b""


def test_a_full_disk_under_the_document_is_told(environment: dict[str, str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gpustack", "schema", "plan"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.decode().startswith(
        "error[not-writable]: standard output cannot be written: No space left on device\nhint: "
    )
    assert done.stderr.decode().count("\n") == 2


@pytest.mark.usefixtures("heeded_interrupts")
def test_an_interrupt_ends_with_130(environment: dict[str, str]) -> None:
    process = start(environment, "matrix", "show", "cuda-redist")
    assert process.stdout is not None
    # More is to come than a pipe holds: with the first byte here the program waits for its reader.
    assert os.read(process.stdout.fileno(), 1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == b"interrupted\n"


def start(environment: dict[str, str], *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "gpustack", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )


def test_a_locale_without_the_letters_changes_nothing(program: Callable) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    arguments = ("matrix", "show", "triton")
    there, here = program(*arguments, env=ascii_only), program(*arguments)
    assert there == here
    assert here.code == 0


def test_nothing_is_written_where_the_program_runs(program: Callable, tmp_path: Path) -> None:
    for arguments in (("detect",), ("plan", "cuda", *HOST), ("verify", "--level", "quick"), ("matrix", "check")):
        program(*arguments)
    assert list(tmp_path.iterdir()) == []


def test_out_saves_what_render_reads(program: Callable, tmp_path: Path) -> None:
    assert program("plan", "cuda", *HOST, "--out", "plan.json").code == 0
    saved = (tmp_path / "plan.json").read_text()
    assert program("render", "plan.json", "--format", "json").out == saved
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
