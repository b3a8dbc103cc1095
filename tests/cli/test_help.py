"""Every command explains itself: each option of the contract, one example that parses."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

import pytest

from gpustack.cli import COMMANDS

COMMON = {"--verbose", "--quiet", "--color", "--matrices", "--help"}
HOST = {"--root", "--host", "--os", "--arch", "--gpu", "--driver", "--kernel", "--gcc", "--clang", "--msvc", "--glibc"}
HOST |= {"--python", "--secure-boot", "--environment"}
PLAN = {"--file", "--method", "--policy", "--kernel-module"}
OPTIONS = {
    "detect": {"--root", "--format", "--record"},
    "check": HOST | {"--format"},
    "plan": HOST | PLAN | {"--strict", "--target", "--format", "--out", "--detailed-exitcode"},
    "explain": HOST | PLAN | {"--strict", "--target", "--format", "--out", "--detailed-exitcode"},
    "render": {"--format"},
    "fetch": {"--to"},
    "install": PLAN | {"--dry-run", "--yes", "--root"},
    "verify": {"--level", "--require", "--format", "--output", "--ffmpeg", "--engine", "--release", "--url", "--model"},
    "bench": {"--sessions", "--seconds", "--batch", "--streams", "--iterations", "--profile", "--format"},
    "triton": {"--release", "--digits", "--engine", "--version", "--keep", "--instances", "--cpu", "--format"},
    "status": {"--lock"},
    "fleet detect": {"--inventory", "--limit", "--out", "--forks", "--format", "--detailed-exitcode"},
    "fleet apply": {"--waves", "--max-fail", "--gate", "--drain", "--resume", "--program", "--reboot", "--yes"},
    "fleet verify": {"--inventory", "--limit", "--level", "--out", "--program"},
    "fleet plan": {"--file", "--method", "--policy", "--out", "--allow", "--what-if", "--detailed-exitcode"},
    "matrix": {"--format"},
    "mcp": {"--approve"},
    "schema": set(),
    "boot-select": {"--driver", "--module", "--packages", "--root", "--format", "--unit"},
    "fleet report": {"--format", "--output"},
}


def test_every_command_is_in_this_table_and_in_the_help(call: Callable) -> None:
    assert OPTIONS.keys() == COMMANDS.keys()
    ended = call("--help")
    assert ended.code == 0
    for name in COMMANDS:
        assert re.search(rf"^  {name.split()[0]} +\S", ended.out, re.MULTILINE)
    assert "Example: gpustack " in ended.out


@pytest.mark.parametrize("name", OPTIONS)
def test_help_names_every_option_and_gives_an_example(name: str, call: Callable) -> None:
    ended = call(*name.split(), "--help")
    assert ended.code == 0
    assert not ended.err
    assert set(re.findall(r"--[a-z][a-z-]*", ended.out)) >= OPTIONS[name] | COMMON
    text = " ".join(ended.out.split())
    example = re.search(rf"Example: (gpustack {name}.*)$", text)
    assert example
    assert call(*shlex.split(example[1])[1:], "--help").code == 0


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_has_a_word_of_help(name: str, call: Callable) -> None:
    text = call(*name.split(), "-h").out.partition("Options:")[2].partition("Example:")[0]
    for entry in re.split(r"\n  (?=-)", text)[1:]:
        assert len(entry.split()) >= 3, entry


def test_the_same_help_for_short_and_long(call: Callable) -> None:
    assert call("plan", "-h") == call("plan", "--help")


def test_no_argument_at_all_is_wrong_usage_with_help(call: Callable) -> None:
    ended = call()
    assert ended.code == 2
    assert not ended.out
    assert "Commands:" in ended.err


def test_version_is_the_same_both_ways(call: Callable, program: Callable) -> None:
    assert call("--version") == program("--version")
    assert call("version") == call("--version")
    assert call("help", "plan") == call("plan", "--help")
