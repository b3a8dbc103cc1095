"""Same input, same bytes: in every locale, time zone, folder, hash seed and process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

HOST = ("--os", "rhel9.4", "--gpu", "H200", "--gpu", "L4")
COMMANDS = {
    "plan-json": ("plan", "cuda>=12.4", "cudnn==9.*", "ffmpeg", *HOST, "--format", "json"),
    "plan-table": ("plan", "driver", "tensorrt", *HOST),
    "check": ("check", "cuda==13.0.2", "driver==535.104.05", "cudnn==9.1.0", *HOST, "--format", "json"),
    "explain": ("explain", "cuda", "nccl", *HOST, "--format", "json"),
    "conflict": ("plan", "cuda>=13", "driver==535.*", *HOST),
    "matrix": ("matrix", "show", "cuda==13.0.2"),
}

ENVIRONMENTS = (
    {"LC_ALL": "C", "TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "1", "COLUMNS": "40"},
    {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "TZ": "America/St_Johns", "PYTHONHASHSEED": "4242"},
    {"LANG": "de_DE.ISO-8859-1", "PYTHONHASHSEED": "random", "HOME": "/nonexistent", "COLUMNS": "500"},
)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_answer_is_the_same_everywhere(name: str, program: Callable, call: Callable, tmp_path: Path) -> None:
    arguments = COMMANDS[name]
    here = call(*arguments)
    for number, changes in enumerate(ENVIRONMENTS):
        folder = tmp_path / f"folder {number}"
        folder.mkdir()
        old = os.umask(0o077 if number else 0o000)
        try:
            there = program(*arguments, env=changes, cwd=folder)
        finally:
            os.umask(old)
        assert there == here


def test_order_of_requirements_does_not_change_the_stack(call: Callable) -> None:
    one = call("plan", "cuda", "cudnn", "nccl", *HOST, "--format", "markdown")
    two = call("plan", "nccl", "cudnn", "cuda", *HOST, "--format", "markdown")
    stack = [line for line in one.out.splitlines() if line.startswith("|")]
    assert stack == [line for line in two.out.splitlines() if line.startswith("|")]
