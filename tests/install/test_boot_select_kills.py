"""A swap of driver sets that is killed before any of its writes: the next selection leaves the right set, whole.

A library that counts calls kills dpkg and gpustack in dpkg's own writes; in gpustack's own, an audit hook does.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.install.test_boot_select import H200, NEW, OLD, P100, Call, call, image, installed, with_bus  # noqa: F401

from gpustack.cli import main

pytestmark = pytest.mark.slow
KILLER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* One byte for each call, over all programs of the swap. */
static void count(void) {
  int handle = open(getenv("KILLER_COUNT"), O_WRONLY | O_APPEND | O_CREAT, 0600);
  long calls;
  if (handle < 0) return;
  if (write(handle, ".", 1) != 1) _exit(99);
  calls = lseek(handle, 0, SEEK_END);
  close(handle);
  if (calls == atol(getenv("KILLER_AT"))) {
    kill(atoi(getenv("KILLER_PROGRAM")), SIGKILL);
    kill(getpid(), SIGKILL);
  }
}

int rename(const char *from, const char *to) {
  int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
  count();
  return real(from, to);
}

int unlink(const char *path) {
  int (*real)(const char *) = dlsym(RTLD_NEXT, "unlink");
  count();
  return real(path);
}
"""


@pytest.fixture
def dpkg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The real dpkg, in which the killer counts; the folder that its file of calls is in."""
    (tmp_path / "killer.c").write_text(KILLER)
    library = tmp_path / "killer.so"
    compiler = ["cc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "killer.c"), "-ldl"]
    subprocess.run(compiler, check=True)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "dpkg").write_text(f'#!/bin/sh\nLD_PRELOAD="$KILLER" PATH={os.environ["PATH"]} exec dpkg "$@"\n')
    (programs / "dpkg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("KILLER", str(library))
    return tmp_path


def killed(root: Path, count: Path, at: int, hook: Callable[[], None] = lambda: None) -> bool:
    """Whether the selection was killed before it came to its end."""
    count.write_bytes(b"")
    child = os.fork()
    if child == 0:
        os.environ |= {"KILLER_COUNT": str(count), "KILLER_AT": str(at), "KILLER_PROGRAM": str(os.getpid())}
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        hook()
        code = 99
        try:
            code = main(["boot-select", "select", "--root", str(root)])
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def demand_whole(root: Path, packages: set[str], stems: set[str], call: Call, name: str) -> None:  # noqa: F811
    """After the next boot the set is installed, nothing of the other is left, and every record can be read."""
    ended = call("select", "--root", str(root))
    assert ended.code == 0, ended.err
    assert installed(root) == packages
    assert {path.name for path in (root / "usr/lib").iterdir()} == stems
    audit = subprocess.run(["dpkg", f"--root={root}", "--audit"], capture_output=True, text=True, check=True)
    assert audit.stdout == ""
    records = [json.loads(line) for line in (root / "var/lib/gpustack/boot/journal").read_text().splitlines() if line]
    assert records[-1]["to"] == name
    assert call("select", "--root", str(root)).out == f"{name} is active: nothing to do\n"


def copies(image: Path, folder: Path) -> Callable[[], Path]:  # noqa: F811
    """A maker of fresh copies of the image."""

    def make() -> Path:
        subprocess.run(["rm", "-rf", str(folder)], check=True)
        subprocess.run(["cp", "-a", str(image), str(folder)], check=True)
        return folder

    return make


def writes(fresh: Callable[[], Path], swap: Callable[[Path, int], bool]) -> int:
    """Swap in a fresh copy each time, killed before the first write, the second, and so on; the first not killed."""
    return next(at for at in itertools.count(1) if not swap(fresh(), at))


def test_killed_in_any_write_of_dpkg(call: Call, image: Path, dpkg: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setenv("KILLER_AT", "0")
    monkeypatch.setenv("KILLER_COUNT", str(dpkg / "count"))
    with_bus(image, H200)
    assert call("select", "--root", str(image)).code == 0
    with_bus(image, P100)
    fresh = copies(image, dpkg / "copy")

    def swap(root: Path, at: int) -> bool:
        is_killed = killed(root, dpkg / "count", at)
        demand_whole(root, OLD, {"nvidia-driver", "nvidia-kernel-535"}, call, "r535")
        return is_killed

    assert writes(fresh, swap) > 30, "dpkg writes more often than that"


def watch(at: int) -> None:
    """Kill this process before its write of that number."""
    left = [at]

    def hook(name: str, arguments: tuple[object, ...]) -> None:
        is_write = name == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if is_write or name in {"os.rename", "subprocess.Popen", "fcntl.flock"}:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def test_killed_before_any_write_of_its_own(call: Call, image: Path, tmp_path: Path) -> None:  # noqa: F811
    with_bus(image, P100)
    assert call("select", "--root", str(image)).code == 0
    with_bus(image, H200)
    fresh = copies(image, tmp_path / "copy")

    def swap(root: Path, at: int) -> bool:
        is_killed = killed(root, tmp_path / "count", 0, lambda: watch(at))
        demand_whole(root, NEW, {"nvidia-driver", "nvidia-kernel-580"}, call, "r580")
        return is_killed

    assert writes(fresh, swap) > 5, "it writes more often than that"


def test_a_torn_record_does_not_swallow_the_next(call: Call, image: Path) -> None:  # noqa: F811
    with_bus(image, H200)
    place = image / "var/lib/gpustack/boot/journal"
    place.write_text('{"event":"beg')
    assert call("select", "--root", str(image)).code == 0
    torn, *records = place.read_text().splitlines()
    assert torn == '{"event":"beg'
    assert [json.loads(line)["event"] for line in records] == ["begin", "end"]
