"""Somebody is asked at a terminal, or something is waited for, and a signal or the end of the terminal comes instead."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from tests.by_hand import draft
from tests.install.layers import Layer
from tests.install.test_faults import records
from tests.install.test_terminals import gone
from tests.install.world import VENDOR, World, make_plan, sha256

from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, FileWrite

step = partial(draft, component="", why="the test asks for it", phase="driver")
pytestmark = pytest.mark.usefixtures("heeded_interrupts")


class Terminal:
    """A person's terminal with ``gpustack install`` in it."""

    def __init__(self, process: subprocess.Popen[bytes], outer: int) -> None:
        self.process = process
        self.outer = outer
        self.shown = ""

    def until(self, text: str) -> None:
        while text not in self.shown:
            self.shown += os.read(self.outer, 65536).decode()

    def type(self, keys: bytes) -> None:
        os.write(self.outer, keys)

    def code(self) -> int:
        """Its exit code, once it has ended."""
        code = self.process.wait(timeout=60)
        with suppress(OSError):  # the terminal has no end any more, and all that was said in it is read
            while True:
                self.shown += os.read(self.outer, 65536).decode()
        return code


@contextmanager
def terminal(world: World, made: Layer, *words: str) -> Iterator[Terminal]:
    outer, inner = os.openpty()
    command = ["setsid", "--ctty", sys.executable, "-m", "gpustack", "install", *words, "--root", str(made.root.path)]
    with subprocess.Popen(
        command, stdin=inner, stdout=inner, stderr=inner, env=world.environment(TERM="dumb")
    ) as process:
        os.close(inner)
        try:
            yield Terminal(process, outer)
        finally:
            process.kill()
            os.close(outer)


def by_hand() -> Plan:
    files = (FileWrite(path="/etc/gp.conf", content="new = 1\n"),)
    return make_plan(
        [
            step("hand", kind="manual", title="turn the key", needs_root=False),
            step("after", after=["hand"], kind="write-file", title="write settings", files=files),
        ]
    )


ANSWERS = {
    "no": (b"n\n", 1, "cancelled: nothing was changed"),
    "nothing": (b"\n", 1, "cancelled: nothing was changed"),
    "a word, then no": (b"what\nno\n", 1, "answer y or n"),
    "the end of what is typed": (b"\x04", 1, "cancelled: nothing was changed"),
    "Ctrl-C": (b"\x03", 130, "interrupted by SIGINT"),
    "Ctrl-backslash": (b"\x1c", 131, "interrupted by SIGQUIT"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_first_question(world: World, tmp_path: Path, name: str) -> None:
    keys, code, said = ANSWERS[name]
    with world.fresh(tmp_path / "layer") as made:
        with terminal(world, made, world.save(tmp_path, by_hand())) as person:
            person.until("[y/N]: ")
            person.type(keys)
            assert person.code() == code, person.shown
            assert said in person.shown
        assert made.changes() == {}


QUESTIONS = {"no": (b"n\n", 5), "Ctrl-C": (b"\x03", 5), "Ctrl-backslash": (b"\x1c", 5), "yes": (b"y\n", 0)}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_in_a_run(world: World, tmp_path: Path, name: str) -> None:
    keys, code = QUESTIONS[name]
    with world.fresh(tmp_path / "layer") as made:
        with terminal(world, made, world.save(tmp_path, by_hand()), "--yes") as person:
            person.until("Is it done? [y/N]: ")
            person.type(keys)
            assert person.code() == code, person.shown
        assert made.root.inside("/etc/gp.conf").read_text() == ("new = 1\n" if code == 0 else "old = 1\n")


def test_a_terminal_that_is_closed_at_a_question(world: World, tmp_path: Path) -> None:
    with world.fresh(tmp_path / "layer") as made:
        process = None
        with terminal(world, made, world.save(tmp_path, by_hand())) as person:
            person.until("[y/N]: ")
            process = person.process
            os.close(person.outer)
            person.outer = os.open(os.devnull, os.O_RDONLY)
            assert process.wait(timeout=60) in {1, 129}
        assert made.changes() == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_waiting_for_another_gpustack(world: World, tmp_path: Path, number: signal.Signals) -> None:
    with world.fresh(tmp_path / "layer") as made:
        state = made.root.inside("/var/lib/gpustack")
        state.mkdir(mode=0o700)
        with (state / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            process = world.start(made.root.path, world.save(tmp_path, by_hand()), "--yes")
            assert process.stderr is not None
            assert process.stderr.readline().startswith("waiting for another gpustack")
            process.send_signal(number)
            assert (process.communicate(timeout=60)[1], process.returncode) == (
                f"interrupted by {number.name}\n",
                128 + number,
            )
        assert records(made) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_waiting_for_the_package_database(world: World, tmp_path: Path, number: signal.Signals) -> None:
    with world.fresh(tmp_path / "layer") as made:
        with made.root.inside("/var/lib/dpkg/lock-frontend").open("w") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            process = world.start(made.root.path, world.save(tmp_path), "--yes")
            assert process.stderr is not None
            assert any(line.startswith("waiting for") for line in process.stderr)
            process.send_signal(number)
            told = process.communicate(timeout=60)[1]
        assert process.returncode == 128 + number, told
        assert f"interrupted by {number.name}" in told
        assert not {"start", "run"} & {str(one["event"]) for one in records(made)}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_waiting_for_a_download(world: World, tmp_path: Path, number: signal.Signals) -> None:
    with world.fresh(tmp_path / "layer") as made:
        world.files.halfway.clear()
        world.files.faults = ["stall", "stall"]
        process = world.start(made.root.path, world.save(tmp_path), "--yes", GPUSTACK_CACHE=str(tmp_path / "cache"))
        assert world.files.halfway.wait(60)
        process.send_signal(number)
        told = process.communicate(timeout=60)[1]
        world.files.faults = []
        assert process.returncode == 128 + number, told
        assert f"interrupted by {number.name}" in told


def test_a_bundle_whose_fingerprint_nobody_got_and_drift_that_nobody_read(world: World, tmp_path: Path) -> None:
    name = next(one for one in world.files.content if one.endswith(".gz"))
    content = tmp_path / "content"
    content.write_bytes(world.files.content[name])
    artifact = Artifact(
        url=f"{VENDOR}{name[1:]}",
        path=f"/var/cache/gpustack{name}",
        sha256=sha256(content),
        size=content.stat().st_size,
    )
    plan = world.save(tmp_path, make_plan([step("one", kind="download", title="download", artifacts=(artifact,))]))
    with world.fresh(tmp_path / "layer") as made:
        tree = ("--root", str(made.root.path))
        assert world.call(made.root.path, plan, "--yes").code == 0
        for words in (("fetch", plan, "--to", str(tmp_path / "bundle"), *tree), ("status", *tree)):
            told = {}
            for reader in ("there", "gone"):
                writer = gone() if reader == "gone" else os.open(os.devnull, os.O_WRONLY)
                done = subprocess.run(
                    [sys.executable, "-m", "gpustack", *words],
                    stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE, env=world.environment(), check=False,
                )  # fmt: skip
                os.close(writer)
                told[reader] = (done.returncode, done.stderr.decode())
            assert told["there"][0] == 0, told
            assert told["gone"][0] == 1
            assert "error[not-writable]: standard output cannot be written: Broken pipe" in told["gone"][1]
