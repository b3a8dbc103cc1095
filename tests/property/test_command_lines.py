"""Both readers of a command line agree: what the fast one takes, typer reads as the same values."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import tempfile
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from gpustack.cli import COMMANDS, application, declared
from gpustack.cli.declare import Command, Option
from gpustack.cli.reader import read


def by_typer(command: Command, words: list[str]) -> dict[str, Any] | None:
    """The values that typer reads; None where it refuses, helps or ends in another way."""
    seen: list[dict[str, Any]] = []

    def note(_: Command, values: dict[str, Any]) -> int:
        seen.append(values)
        return 0

    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        application.run([*command.name.split(), *words], [command], note)
    return seen[0] if seen else None


PLAIN = [
    "",
    "cuda",
    "cuda==12.4,<13",
    "a=b",
    "quick",
    "json",
    "text",
    "list",
    "0",
    "1",
    "2.5",
    "300",
    ".",
    "/etc",
    "no\udcff",
    "a b",
]
ODD = [
    "-",
    "--",
    "-h",
    "--help",
    "-x",
    "-vv",
    "-qv",
    "-1",
    "--no-such",
    "--forma",
    "nan",
    "inf",
    "1e3",
    " 1",
    "1_0",
    "\u0661",
    "+1",
    "1.",
]


def words_of(command: Command) -> st.SearchStrategy[list[str]]:
    """Command lines of a command: mostly its own options with values of all kinds, some with anything."""
    parameters = command.parameters()
    names = [name for one in parameters if isinstance(one.form, Option) for name in one.form.names]
    members = [m.value for one in parameters if issubclass(one.kind, Enum) for m in one.kind]
    value = st.sampled_from([*PLAIN, *members]) | st.text(max_size=4).filter(lambda text: "\0" not in text)
    name = st.sampled_from(names)
    piece = st.one_of(
        st.tuples(value),
        st.tuples(name, value),
        st.tuples(name, value),
        st.builds(lambda one, text: (f"{one}={text}",), name, value),
        st.tuples(name),
        st.tuples(st.sampled_from(ODD)),
    )
    return st.lists(piece, max_size=5).map(lambda pieces: [word for one in pieces for word in one])


@pytest.mark.parametrize("name", COMMANDS)
def test_what_the_fast_reader_takes_typer_reads_the_same(name: str) -> None:
    command = declared(name)

    @settings(max_examples=examples(150), deadline=None)
    @given(words_of(command))
    def agree(words: list[str]) -> None:
        taken = read(command, words, {})
        if taken is None:
            return
        other = by_typer(command, words)
        assert other == taken
        assert {key: type(value) for key, value in taken.items()} == {key: type(value) for key, value in other.items()}

    agree()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_of_each_command_needs_no_parser(name: str) -> None:
    command = declared(name)
    words = shlex.split(command.example)[1 + len(name.split()) :]
    taken = read(command, words, {})
    assert taken is not None
    assert taken == by_typer(command, words)


ORDINARY = [
    "plan",
    "plan cuda>=12.4,<13 cudnn==9.* --os=ubuntu24.04 --gpu L4 --gpu H200 --method cudnn=tar -v --verbose -q",
    "plan --policy minimal --kernel-module open --detailed-exitcode --out p.json --format json --color never",
    "plan cuda cudnn --upgrade",
    "plan cuda --upgrade --os ubuntu24.04",
    "plan --upgrade cudnn cuda --upgrade=driver",
    "check cuda==12.4.1 --os rhel9.4 --arch aarch64 --driver 580.95.05 --format json",
    "verify cuda driver --level smoke --require ffmpeg.nvenc --require cuda --retry-timeout 2.5 --output a --output b",
    "install plan.json --yes --reboot never --wait 10 --mirror https://a/=https://b/",
    "matrix show cuda.releases --format json",
    "bench gpu --iterations 20 --format json",
    "triton model-store /srv/models --version 3 --cpu --engine 9.0=a.plan",
]


@pytest.mark.parametrize("line", ORDINARY)
def test_an_ordinary_line_needs_no_parser(line: str) -> None:
    name, *words = line.split()
    taken = read(declared(name), words, {})
    assert taken is not None
    assert taken == by_typer(declared(name), words)


@pytest.mark.parametrize(
    "line",
    ["plan --help", "plan -h", "plan --os", "plan --os --gpu", "schema", "schema hots", "matrix list a b",
     "plan --os a --os b", "plan --policy newst", "plan -- cuda", "plan --detailed-exitcode=yes", "install --wait nan",
     "bench gpu --iterations 9", "bench gpu --iterations 1.5", "plan --quiet --quiet"],
)  # fmt: skip
def test_all_else_is_left_to_the_parser(line: str) -> None:
    name, *words = line.split()
    assert read(declared(name), words, {}) is None


def test_a_value_in_the_environment_is_left_to_the_parser() -> None:
    command = declared("fetch")
    words = ["plan.json", "--to", "folder"]
    assert read(command, words, {}) is not None
    assert read(command, words, {"GPUSTACK_MIRRORS": "https://a/=https://b/"}) is None


def test_a_file_that_cannot_be_read_is_left_to_the_parser() -> None:
    command = declared("render")
    with tempfile.TemporaryDirectory(prefix="gpustack-test-") as name:
        Path(name).chmod(0o755)
        path = Path(name) / "plan.json"
        path.touch(0o600)
        assert read(command, [str(path)], {}) is not None
        if os.geteuid() != 0:
            path.chmod(0)
        child = os.fork()
        if child == 0:
            if os.geteuid() == 0:  # who may read everything
                os.setuid(65534)
            os._exit(0 if read(command, [str(path)], {}) is None else 1)
        assert os.waitpid(child, 0)[1] == 0
