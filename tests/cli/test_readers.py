"""Readers who leave, streams that are closed, disks that are full: the exit code tells what was done, nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HOST = ("--os", "ubuntu24.04", "--gpu", "L4")
BUFFERS = [{}, {"PYTHONUNBUFFERED": "1"}]


def left(environment: dict[str, str], *arguments: str, streams: str = "out", **more: str) -> tuple[int, str]:
    """Run it for a reader who is gone before the first byte; its exit code, and standard error if that is read."""
    reader, gone = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "gpustack", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=gone if "out" in streams else subprocess.DEVNULL,
            stderr=gone if "err" in streams else subprocess.PIPE,
            env={**environment, **more},
            timeout=60,
            check=False,
        )
    finally:
        os.close(gone)
    return done.returncode, (done.stderr or b"").decode()


PRINTERS = {
    "plan": ("plan", "cuda", *HOST),
    "render": ("plan", "cuda", *HOST, "--format", "shell"),
    "explain": ("explain", "cuda", *HOST),
    "matrix": ("matrix", "show", "cuda-redist"),
    "schema": ("schema", "plan"),
    "detect": ("detect",),
    "a yes": ("check", "cuda==12.6", "cudnn", *HOST),
    "a no": ("check", "cuda==13.0", "--os", "ubuntu24.04", "--gpu", "V100"),
    "no solution": ("plan", "cuda==13.0", "--os", "ubuntu24.04", "--gpu", "V100"),
}


@pytest.mark.parametrize("unbuffered", BUFFERS, ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("arguments", PRINTERS.values(), ids=list(PRINTERS))
def test_a_reader_of_a_document_may_leave(
    environment: dict[str, str], program: Callable, arguments: tuple[str, ...], unbuffered: dict[str, str]
) -> None:
    told = program(*arguments)
    assert left(environment, *arguments, **unbuffered) == (told.code, told.err)
    assert left(environment, *arguments, streams="out err", **unbuffered)[0] == told.code


@pytest.mark.parametrize("unbuffered", BUFFERS, ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("form", [("--format", "text"), ("--format", "json"), ("--output", "-")])
def test_a_report_that_nobody_got_is_no_pass(
    environment: dict[str, str], form: tuple[str, ...], unbuffered: dict[str, str]
) -> None:
    code, err = left(environment, "verify", "cuda", *form, **unbuffered)
    assert code == 2
    assert err.startswith("error[not-writable]: standard output cannot be written: Broken pipe\nhint: ")
    assert left(environment, "verify", "cuda", *form, streams="out err", **unbuffered)[0] == 2


def test_nor_one_for_which_the_disk_is_full(environment: dict[str, str]) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "gpustack", "verify", "cuda"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=environment, check=False)
    assert done.returncode == 2
    assert b"No space left on device" in done.stderr


@pytest.mark.parametrize("unbuffered", BUFFERS, ids=["buffered", "unbuffered"])
def test_help_may_be_left_unread(environment: dict[str, str], unbuffered: dict[str, str]) -> None:
    assert left(environment, "--version", **unbuffered) == (0, "")
    code, err = left(environment, "--help", **unbuffered)
    assert code in {0, 1}  # as the parser has it
    assert err == ""


@pytest.mark.parametrize("unbuffered", BUFFERS, ids=["buffered", "unbuffered"])
def test_a_version_that_cannot_be_written(environment: dict[str, str], unbuffered: dict[str, str]) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "gpustack", "--version"]
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, env={**environment, **unbuffered}, check=False
        )
    assert done.returncode == 1
    assert done.stderr == b"error[not-writable]: standard output cannot be written: No space left on device\n"


def test_a_traceback_that_nobody_reads_is_no_success(environment: dict[str, str]) -> None:
    assert left(environment, "plan", "qda", *HOST, "-v", "-v", streams="out err")[0] == 2


CLOSED = {"input": "<&-", "output": ">&-", "error": "2>&-", "all": "<&- >&- 2>&-"}


@pytest.mark.parametrize("closed", CLOSED.values(), ids=list(CLOSED))
def test_streams_that_are_closed(environment: dict[str, str], tmp_path: Path, closed: str) -> None:
    """What a command writes to a file is whole; no file of its own takes the place of a stream."""
    script = f'exec "$@" {closed}'
    program = [sys.executable, "-m", "gpustack", "plan", "qda" if "2" in closed else "cuda", *HOST]
    command = ["sh", "-c", script, "sh", *program, "--out", str(tmp_path / "plan.json")]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
    if "2" in closed:
        assert (done.returncode, done.stderr) == (2, b"")
        return
    assert done.returncode == (1 if ">&-" in closed else 0), done.stderr
    if done.returncode == 0:
        assert json.loads((tmp_path / "plan.json").read_text())["schema"] == "gpustack/plan/v1"
