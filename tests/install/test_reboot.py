"""A Debian in a virtual machine: its plan reboots it, goes on by itself after the boot, ends, and leaves no unit behind."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.by_hand import draft
from tests.install.world import make_plan
from tests.integration.roots import Root, base_tree, copy_tree, own_release

from gpustack import resources
from gpustack.install.run.reboot import NAME, UNIT, WANTED
from gpustack.plan.document import dump
from gpustack.plan.draft import Draft

CHECKOUT = resources.folder("matrices").parent
PROGRAMS = {"qemu-system-x86_64": "qemu-system-x86", "mke2fs": "e2fsprogs", "debugfs": "e2fsprogs"}
BOOTED = ("dbus", "initramfs-tools", "kmod", "linux-image-cloud-amd64", "python3", "systemd-sysv", "udev")
BOOT_ID = "/proc/sys/kernel/random/boot_id"
LIMIT = 900.0
"""Seconds for two boots by software emulation, with much to spare."""

BEGIN = """[Unit]
Description=Install, once
ConditionPathExists=!/srv/begun
OnFailure=poweroff.target
[Service]
Type=oneshot
Environment=PYTHONPATH=/opt/gpustack/src
ExecStartPre=/usr/bin/touch /srv/begun
ExecStart=/usr/bin/python3 -m gpustack install /srv/plan.json --yes --reboot now
SuccessExitStatus=5
StandardError=append:/srv/begin.log
[Install]
WantedBy=multi-user.target
"""
END = f"""[Unit]
Description=Switch off once the unit of the installation is gone, however it ended
Before=begin.service
ConditionPathExists=/srv/begun
[Service]
ExecStart=/bin/sh -c 'while [ -e {UNIT} ] || systemctl show --property=ActiveState {NAME} | grep -q activating; do sleep 1; done'
ExecStopPost=/bin/sh -c 'journalctl --sync; journalctl --boot --unit {NAME} > /srv/resume.log; exec systemctl --no-block poweroff'
[Install]
WantedBy=multi-user.target
"""


def steps() -> list[Draft]:
    def copy(key: str, after: list[str]) -> Draft:
        command = ("cp", "--", BOOT_ID, f"/srv/{key}")
        return draft(
            key, after=after, kind="run", title=key, commands=(command,), component="", why="test", phase="driver"
        )

    reboot = draft("reboot", after=["before"], kind="reboot", title="reboot", commands=(("systemctl", "reboot"),),
        reboot_after=True, component="", why="test", phase="driver")  # fmt: skip
    return [copy("before", []), reboot, copy("after", ["reboot"])]


def dependencies() -> list[str]:
    """What gpustack needs, as its own package says; pip leaves out what this Python does not need."""
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 cannot read pyproject.toml by itself")
    told = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    return [str(one) for one in told["project"]["dependencies"]]


def equip(root: Root) -> None:
    """Give the tree this gpustack, what it needs, the plan, and the unit that begins."""
    site = root.inside("/usr/local/lib/python3.11/dist-packages")
    wanted = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(site), "--python-version", "3.11"]
    subprocess.run([*wanted, "--only-binary=:all:", *dependencies()], check=True)
    checkout = root.inside("/opt/gpustack")
    checkout.mkdir()
    for name in ("src", "matrices", "templates", "pyproject.toml"):
        subprocess.run(["cp", "--recursive", name, str(checkout)], check=True, cwd=CHECKOUT)
    root.write("/srv/plan.json", dump(make_plan(steps())))
    for name, text in (("begin", BEGIN), ("end", END)):
        root.write(f"/etc/systemd/system/{name}.service", text)
        root.must("systemctl", "enable", f"{name}.service")
    root.write("/etc/fstab", "/dev/vda / ext4 defaults 0 1\n")


def ask(disk: Path, question: str) -> str:
    """What debugfs prints of the disk; "" for a file that is not there."""
    return subprocess.run(["debugfs", "-R", question, str(disk)], capture_output=True, text=True, check=True).stdout


def read(disk: Path, path: str) -> str:
    return ask(disk, f"cat {path}")


def boot(disk: Path, tree: Path, log: Path) -> None:
    """Start the machine and wait until it switches itself off: no network, one disk, its console in ``log``."""
    kernel, image = (next(tree.glob(f"boot/{name}-*-amd64")) for name in ("vmlinuz", "initrd.img"))
    words = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1024"]
    words += ["-nic", "none", "-display", "none", "-monitor", "none", "-serial", f"file:{log}"]
    words += ["-kernel", str(kernel), "-initrd", str(image), "-append", "root=/dev/vda rw console=ttyS0 panic=1"]
    words += ["-drive", f"file={disk},format=raw,if=virtio,cache=unsafe"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LIMIT)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_machine_reboots_and_goes_on_by_itself(tmp_path: Path) -> None:
    missing = sorted({package for program, package in PROGRAMS.items() if not shutil.which(program)})
    if missing:
        pytest.skip(f"needs a virtual machine, and these Debian packages are not installed: {' '.join(missing)}")
    if os.geteuid() != 0 or platform.machine() != "x86_64":
        pytest.skip("needs root on x86_64: the tree is made by debootstrap for the machine that is emulated")
    if own_release() != "bookworm":
        pytest.skip("needs Debian 12, whose package sources the tree is made from, with Python 3.11")
    root = copy_tree(base_tree("bookworm", BOOTED, ()), tmp_path / "tree")
    equip(root)
    disk, log = tmp_path / "disk.img", tmp_path / "console.log"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", str(root.path), str(disk), "2G"], check=True)
    boot(disk, root.path, log)

    told = log.read_text(errors="replace")
    assert told.count("Linux version") == 2, told[-3000:]
    story = read(disk, "/srv/begin.log") + read(disk, "/srv/resume.log")
    before, after = (read(disk, f"/srv/{key}").strip() for key in ("before", "after"))
    assert before, story
    assert after, story
    assert before != after
    folder = f"/var/lib/gpustack/runs/00001-{make_plan(steps()).digest[:12]}"
    records = [json.loads(line) for line in read(disk, f"{folder}/journal.jsonl").splitlines()]
    ends = [(one["step"].rpartition("-")[0], one["outcome"], one["boot"]) for one in records if one["event"] == "end"]
    assert ends == [
        ("before", "done", before),
        ("reboot", "paused", before),
        ("reboot", "done", after),
        ("after", "done", after),
    ]
    assert records[-1]["event"] == "finished"
    assert records[-1]["boot"] == after
    for path in (UNIT, WANTED):
        there = ask(disk, f"ls -p {path.parent}")
        assert "/end.service/" in there
        assert f"/{NAME}/" not in there
    assert "Finished " in read(disk, "/srv/resume.log"), story
