"""An update that is killed leaves the old facts or the new ones, and the next update works; readers see one version."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.feed.conftest import Machine, Publisher

from gpustack.matrix.index import load_matrix


def test_killed_before_any_write_it_leaves_old_or_new(publisher: Publisher, machine: Machine) -> None:
    publisher.release("13.3.0")
    publisher.publish()
    machine.update(publisher.path)  # two generations: the third removes the first
    old = [row.version for row in load_matrix().releases("cuda")]
    publisher.release("13.4.0")
    publisher.publish()
    program = Path(__file__).with_name("kill_points.py")
    words = (machine.folder, publisher.path, machine.root)
    done = subprocess.run(
        [sys.executable, str(program), *map(str, words)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    *killed, last = map(json.loads, done.stdout.splitlines())
    new = last["left"]
    assert set(new) == {*old, "13.4.0"}
    assert not last["killed"]
    assert all(one["killed"] for one in killed)
    assert len(killed) > 40  # metadata, each compiled file, links
    assert {tuple(one["left"]) for one in killed} == {tuple(old), tuple(new)}
    assert {tuple(one["after"]) for one in killed} == {tuple(new)}


def test_a_process_reads_one_version_from_its_beginning_to_its_end(publisher: Publisher, machine: Machine) -> None:
    before = load_matrix()  # it has read the index alone
    for version in ("13.4.0", "13.5.0", "13.6.0"):
        publisher.release(version)
        publisher.publish()
        machine.update(publisher.path)
    assert "13.4.0" not in {row.version for row in before.releases("cuda")}
    assert [row.id for row in before.rules("cudnn")]
    assert "13.6.0" in {row.version for row in load_matrix().releases("cuda")}


READER = """
import sys
from gpustack.matrix.index import load_matrix
matrix = load_matrix()
print("opened", flush=True)
sys.stdin.readline()
print(" ".join(row.version for row in matrix.releases("cuda")), len(list(matrix.rules("cudnn"))), flush=True)
"""


def test_two_processes_read_one_version_while_a_third_updates(publisher: Publisher, machine: Machine) -> None:
    """Both have opened the facts when two updates come: neither sees a part of them, the next process sees all."""
    old = [row.version for row in load_matrix().releases("cuda")]
    command = [sys.executable, "-c", READER]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    readers = [subprocess.Popen(command, **pipes) for _ in range(2)]  # type: ignore[call-overload]
    try:
        assert [one.stdout.readline() for one in readers] == ["opened\n"] * 2
        for version in ("13.4.0", "13.5.0"):
            publisher.release(version)
            publisher.publish()
            update = "from gpustack.matrix.feed.client import update; import sys, pathlib as p;"
            update += "update(p.Path(sys.argv[1]), sys.argv[2], p.Path(sys.argv[3]))"
            words = [str(machine.folder), str(publisher.path), str(machine.root)]
            subprocess.run([sys.executable, "-c", update, *words], env=environment, check=True, timeout=120)
        said = [one.communicate("go on\n", timeout=60)[0].split() for one in readers]
    finally:
        for one in readers:
            one.kill()
            one.wait()
    assert [words[:-1] for words in said] == [old, old]
    assert {"13.4.0", "13.5.0"} < {row.version for row in load_matrix().releases("cuda")}
