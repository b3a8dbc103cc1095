"""Shell and Ansible run the same plan for real, each in its own root: the same result, and nothing left for a second run.

Not as on a machine: the packages of the tests are empty, so the unit that a plan enables is written beforehand; a tree
has no kernel, so the programs that rebuild an initramfs only write down that they were called; nothing boots. For the
verification without gpustack, nvidia-smi and nvcc are stand-ins.
"""

from __future__ import annotations

import hashlib
import re
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.field import Ask, Scene, answering
from tests.integration.managers import installed, missing
from tests.integration.roots import Root
from tests.tiers import tiers
from tests.unit.render.galaxy import ansible

from gpustack.render.api import render

ASKED = {
    "debian12-two-components": Ask("debian12", ("driver", "cuda")),
    "debian12": Ask("debian12", ("driver", "cuda", "cudnn", "container-toolkit")),
    # One repository: the tests sign all with one key, which a second one would find there already.
    "rocky9": Ask("rocky9", ("driver", "cuda", "cudnn")),
}
PREPARED = {
    "debian12-two-components": {},
    "debian12": {},
    "rocky9": {
        "/etc/os-release": 'ID="rocky"\nNAME="Rocky Linux"\nVERSION_ID="9.4"\nID_LIKE="rhel centos fedora"\n',
        "/etc/redhat-release": "Rocky Linux release 9.4 (Blue Onyx)\n",
    },
}
"""What tells the system's name in a tree that was made of Debian's packages."""
BOOT_ID = "/proc/sys/kernel/random/boot_id"
LOCKS = "/etc/dnf/plugins/versionlock.list"
"""Above each lock dnf writes when it was made, and packages that are locked together stand in any order."""
CALLED = "/var/log/called"
VOLATILE = re.compile(
    r"/(dev|proc|run|sys|tmp|root/\.(ansible|gnupg|rpmdb)|var/tmp|var/log|var/cache/(?!gpustack/)[^/]+|var/cache/gpustack/.*-gnupg"
    r"|etc/hosts|var/lib/(apt|dnf|dpkg|gpustack|rpm|systemd)|etc/ld\.so\.cache|.*/__pycache__)(/|$)"
)
"""What managers and forms keep for themselves, and the addresses at which a root finds the tests' servers."""


def snapshot(root: Root, base: Path) -> dict[str, str]:
    """Every file and link of the root that is not one of its base tree: what is in it, and its permissions."""
    found = {}
    for path in sorted(root.path.rglob("*")):
        name = "/" + str(path.relative_to(root.path))
        if VOLATILE.match(name):
            continue
        state = path.lstat()
        if stat.S_ISLNK(state.st_mode):
            found[name] = f"-> {path.readlink()}"
        elif stat.S_ISREG(state.st_mode) and not is_shared(state, base / name.lstrip("/")):
            content = path.read_bytes()
            if name == LOCKS:
                content = b"\n".join(sorted(line for line in content.splitlines() if line and line[:1] != b"#"))
            found[name] = f"{state.st_mode & 0o7777:o} {hashlib.sha256(content).hexdigest()}"
    return found


def is_shared(state: object, original: Path) -> bool:
    return original.exists() and original.lstat().st_ino == state.st_ino  # type: ignore[attr-defined]


def packages(root: Root, family: str) -> dict[str, str]:
    """Every package with its version, what keeps it there, and the keys that the manager knows."""
    found = installed(root, family)
    if family == "apt":
        told = [*root.must("dpkg", "--get-selections").splitlines(), *root.must("apt-mark", "showmanual").splitlines()]
    else:
        told = root.must("rpm", "--query", "--all", "gpg-pubkey*").splitlines()
    return {**found, **dict.fromkeys(sorted(told), "")}


def prepared(root: Root, files: dict[str, str]) -> Root:
    """The root with what the tests cannot have for real, and these files."""
    for path, content in files.items():
        root.write(path, content)
    if files:
        root.inside("/etc/debian_version").unlink()
    for program in ("update-initramfs", "dracut"):
        root.write(f"/usr/sbin/{program}", f'#!/bin/sh\necho {program} "$@" >>{CALLED}\n', 0o755)
    unit = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"
    root.write("/etc/systemd/system/nvidia-persistenced.service", unit)
    return root


def differences(one: dict[str, str], other: dict[str, str]) -> dict[str, tuple[str, str]]:
    names = sorted(one.keys() | other.keys())
    return {name: (one.get(name, ""), other.get(name, "")) for name in names if one.get(name) != other.get(name)}


def run_shell(root: Root, *words: str) -> subprocess.CompletedProcess[str]:
    return root.run(["sh", "/root/plan.sh", *words])


def install_by_shell(root: Root, text: str) -> None:
    """Run the script until its end, with a boot between; a second run changes nothing and says so."""
    root.write("/root/plan.sh", text, 0o755)
    root.write(BOOT_ID, "one\n")
    shown = run_shell(root, "--dry-run")
    assert shown.returncode == 0, shown.stdout
    assert "would change something" in shown.stdout
    stopped = run_shell(root)
    assert stopped.returncode == 5, stopped.stdout
    assert "reboot now, then start this script again" in stopped.stdout
    root.write(BOOT_ID, "two\n")
    ended = run_shell(root)
    assert ended.returncode == 0, ended.stdout


def changed_tasks(folder: Path, *more: str) -> list[str]:
    """Run the playbook; the tasks that changed something, or would."""
    done = ansible(
        "ansible-playbook", "-i", "hosts", "-e", "gpustack_reboot=false", "play.yml", *more, cwd=folder, HOME="/root"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failed=0" in done.stdout
    blocks = re.split(r"^(?:TASK|RUNNING HANDLER) \[", done.stdout, flags=re.MULTILINE)[1:]
    # Of a loop every item says that it changed something, but the task counts once.
    found = [block.partition("]")[0] for block in blocks if re.search(r"^changed: \[field\]", block, re.MULTILINE)]
    recap = re.search(r"changed=(\d+)", done.stdout)
    assert recap
    assert int(recap[1]) == len(found)
    return found


@pytest.mark.parametrize("name", tiers({name: name for name in ASKED}, "debian12-two-components"))
def test_shell_and_ansible_leave_the_same_and_find_nothing_left_to_do(
    name: str, scene: Callable[..., Scene], enter: Callable[..., Root], tree: Path, tmp_path: Path
) -> None:
    host = scene(ASKED[name])
    family = host.system.family
    by_shell = prepared(answering(enter(host, "shell"), host.plan), PREPARED[name])
    by_ansible = prepared(answering(enter(host, "ansible"), host.plan), PREPARED[name])
    before = packages(by_ansible, family)
    install_by_shell(by_shell, render(host.plan, "shell"))
    assert not missing(host.plan, installed(by_shell, family))
    result = packages(by_shell, family), snapshot(by_shell, tree)
    again = run_shell(by_shell)
    assert again.returncode == 0, again.stdout
    assert "nothing to change: everything is as planned" in again.stdout
    assert not differences(packages(by_shell, family), result[0])
    assert not differences(snapshot(by_shell, tree), result[1])

    (tmp_path / "play.yml").write_text(render(host.plan, "ansible"), encoding="utf-8")
    (tmp_path / "hosts").write_text(
        f"field ansible_connection=community.general.chroot ansible_host={by_ansible.path} ansible_become=false "
        "ansible_python_interpreter=/usr/bin/python3\n",
        encoding="utf-8",
    )
    untouched = snapshot(by_ansible, tree)
    told = changed_tasks(tmp_path, "--check", "--diff")
    assert not differences(packages(by_ansible, family), before)
    assert not differences(snapshot(by_ansible, tree), untouched)
    done = changed_tasks(tmp_path)
    assert (sorted(set(told) - set(done)), sorted(set(done) - set(told))) == ([], [])
    assert done == told
    assert told
    assert changed_tasks(tmp_path) == []
    assert not differences(packages(by_ansible, family), result[0])
    assert not differences({"/root/plan.sh": result[1]["/root/plan.sh"], **snapshot(by_ansible, tree)}, result[1])
    calls = [root.inside(CALLED).read_text(encoding="utf-8") for root in (by_shell, by_ansible)]
    assert calls[0] == calls[1]
