"""The unit that continues after a reboot: written and enabled ahead of it, sound for systemd, gone when the run has ended.

On the running system, but for its boot id, its state and its units, which lie in folders of the test, and `systemctl`,
for which a program of the test stands in: this machine is not rebooted (test_reboot.py reboots a virtual one).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.by_hand import draft
from tests.install.test_faults import redigested
from tests.install.world import World, ended, make_plan

from gpustack.install.run.reboot import NAME, unit
from gpustack.model.steps import FileWrite

Call = Callable[..., subprocess.CompletedProcess[str]]
MOUNTS = (
    "mount --bind {0}/state /var/lib && mount --bind {0}/units /etc/systemd/system"
    " && mount --bind {0}/boot_id /proc/sys/kernel/random/boot_id && mount --bind {0}/run /run"
)
step = partial(draft, component="", why="the test asks for it", phase="driver")


@pytest.fixture
def call(world: World, tmp_path: Path) -> Call:
    """``gpustack install`` with the words given, in the boot of the name given; ``systemctl`` answers with ``code``."""
    for name in ("state", "units", "run/systemd/system", "bin"):
        (tmp_path / name).mkdir(parents=True)
    program = tmp_path / "bin/systemctl"
    program.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\necho not now >&2\nexit $SYSTEMCTL_CODE\n')
    program.chmod(0o755)
    write = FileWrite(path=str(tmp_path / "done"), content="x\n")
    plan = make_plan(
        [
            step("reboot", kind="reboot", title="reboot", commands=(("systemctl", "reboot"),), reboot_after=True),
            step("after", after=["reboot"], kind="write-file", title="write", files=(write,)),
        ]
    )
    plan = redigested(replace(plan, host=replace(plan.host, os=replace(plan.host.os, id=None, family=None))))
    world.save(tmp_path, plan)

    def called(boot: str, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        (tmp_path / "boot_id").write_text(f"{boot}\n")
        command = ["unshare", "--mount", "sh", "-c", f'{MOUNTS.format(tmp_path)} && exec "$@"', "sh"]
        command += [sys.executable, "-m", "gpustack", "install", "--yes", *words]
        environment = world.environment(PATH=f"{tmp_path}/bin:{os.environ['PATH']}", SYSTEMCTL_CODE=str(code))
        return ended(command, environment)

    return called


def units(tmp_path: Path) -> set[str]:
    folder = tmp_path / "units"
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or path.is_file()}


def test_now_reboots_and_the_unit_is_gone_at_the_end(call: Call, tmp_path: Path) -> None:
    first = call("one", str(tmp_path / "plan.json"), "--reboot", "now")
    assert first.returncode == 5, first.stderr
    assert f"`journalctl -u {NAME}` shows its progress" in first.stderr
    assert (tmp_path / "asked").read_text() == "reboot\n"
    assert units(tmp_path) == {NAME, f"multi-user.target.wants/{NAME}"}
    link = tmp_path / "units/multi-user.target.wants" / NAME
    assert link.readlink() == Path("/etc/systemd/system") / NAME
    assert not (tmp_path / "done").exists()
    last = call("two", "--resume", "--reboot", "now")
    assert last.returncode == 0, last.stderr
    assert (tmp_path / "done").exists()
    assert units(tmp_path) == set()
    assert (tmp_path / "asked").read_text() == "reboot\n"


def test_a_refused_reboot_leaves_no_unit(call: Call, tmp_path: Path) -> None:
    done = call("one", str(tmp_path / "plan.json"), "--reboot", "now", code=1)
    assert done.returncode == 1
    assert "the reboot was refused: not now" in done.stderr
    assert "reboot by hand, then `gpustack install --resume`" in done.stderr
    assert units(tmp_path) == set()


def test_without_systemd_nothing_is_promised(call: Call, tmp_path: Path) -> None:
    (tmp_path / "run/systemd/system").rmdir()
    done = call("one", str(tmp_path / "plan.json"), "--reboot", "now")
    assert done.returncode == 1
    assert "a run does not continue by itself after a reboot" in done.stderr
    assert units(tmp_path) == set()
    assert not (tmp_path / "asked").exists()


def test_nobody_to_ask_is_a_no(call: Call, tmp_path: Path) -> None:
    done = call("one", str(tmp_path / "plan.json"), "--reboot", "ask")
    assert done.returncode == 5, done.stderr
    assert "reboot, then `gpustack install --resume`" in done.stderr
    assert units(tmp_path) == set()
    assert not (tmp_path / "asked").exists()


def test_a_rollback_takes_the_unit_away(call: Call, tmp_path: Path) -> None:
    assert call("one", str(tmp_path / "plan.json"), "--reboot", "now").returncode == 5
    done = call("one", "--rollback")
    assert done.returncode == 0, done.stderr
    assert units(tmp_path) == set()


def test_systemd_reads_what_was_meant(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that say where files come from travel with it, whatever characters they hold."""
    monkeypatch.setenv("GPUSTACK_CACHE", '/srv/a "cache" of 100%i')
    monkeypatch.setenv("https_proxy", "http://user:p%40ss@proxy.test:8080")
    with world.fresh(tmp_path / "layer") as made:
        made.root.write(sys.executable, "", 0o755)
        made.root.write(f"/etc/systemd/system/{NAME}", unit(Path("/var/lib/gpustack")))
        done = made.root.run(["systemd-analyze", "verify", "--man=no", f"/etc/systemd/system/{NAME}"])
        assert done.returncode == 0, done.stdout
        assert NAME not in done.stdout
        text = made.root.inside(f"/etc/systemd/system/{NAME}").read_text()
    assert 'Environment="GPUSTACK_CACHE=/srv/a \\"cache\\" of 100%%i"\n' in text
    assert 'Environment="https_proxy=http://user:p%%40ss@proxy.test:8080"\n' in text
    assert "--resume --yes --reboot now\n" in text
