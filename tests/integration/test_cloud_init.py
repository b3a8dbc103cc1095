"""User-data for real: cloud-init takes a tree to the state that the shell form takes it to, and refuses another host.

The trees have no GPU: nvidia-smi and nvcc are stand-ins.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.integration.boots import Machine, machine
from tests.integration.field import Ask, Scene, answering
from tests.integration.managers import installed, missing, moved_by_upgrade
from tests.integration.roots import Root
from tests.tiers import tiers

from gpustack.render.api import render

ASKED = {
    "ubuntu24.04": Ask("ubuntu24.04", ("driver", "cuda")),
    "rhel9": Ask("rhel9.4", ("driver", "cuda", "cudnn", "container-toolkit")),
}
DISTRO = {"apt": "debian", "dnf": "rhel"}
PER_BOOT = "/var/lib/cloud/scripts/per-boot/gpustack-1.sh"
OTHER_FILES = ("etc/cloud/", "etc/hosts", "etc/ld.so.cache")
"""The address in /etc/hosts is that of each tree's own server."""


STAGES = (("init", "--local"), ("init",), ("modules", "--mode=config"), ("modules", "--mode=final"))
"""What the four services of cloud-init do, one after the other, in one boot."""


def boot(host: Machine) -> None:
    for stage in STAGES:
        host.must("cloud-init", *stage)


def with_user_data(root: Root, family: str, user_data: str) -> None:
    settings = {
        "datasource_list": ["NoCloud"],
        "network": {"config": "disabled"},
        # The tree has the archive of the tests in its sources; without this the module writes a mirror of its own.
        "apt": {"preserve_sources_list": True},
        "cloud_init_modules": ["write-files"],
        "cloud_config_modules": ["runcmd"],
        "cloud_final_modules": ["scripts-per-boot", "scripts-user", "power-state-change"],
        "system_info": {"distro": DISTRO[family]},
    }
    root.write("/etc/cloud/cloud.cfg", yaml.safe_dump(settings))
    root.write("/var/lib/cloud/seed/nocloud/meta-data", "instance-id: tests\n")
    root.write("/var/lib/cloud/seed/nocloud/user-data", user_data)


def errors(root: Root) -> list[str]:
    log = root.inside("/var/log/cloud-init.log").read_text().splitlines()
    return [line for line in log if "[WARNING]" in line or "[ERROR]" in line or "Traceback" in line]


def state(root: Root) -> dict[str, str]:
    """Every file under /etc and every link under /usr/local and /opt, with what it holds."""
    files = {path: text for path, text in root.settings().items() if not path.startswith(OTHER_FILES)}
    locks = root.inside("/etc/dnf/plugins/versionlock.list")
    if locks.exists():  # dnf writes the time beside each lock, and locks in no certain order
        lines = locks.read_text().splitlines()
        files[str(locks.relative_to(root.path))] = "\n".join(sorted(line for line in lines if not line.startswith("#")))
    links = [path for top in ("usr/local", "opt") for path in root.inside(top).rglob("*") if path.is_symlink()]
    return files | {str(path.relative_to(root.path)): str(path.readlink()) for path in links}


def wait_for(what: Callable[[], bool]) -> bool:
    """cloud-init leaves the reboot to a process of its own that waits for it to end."""
    end = time.monotonic() + 300
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.parametrize("ask", tiers(ASKED, "ubuntu24.04"))
def test_it_leads_where_the_shell_form_leads(
    ask: Ask, scene: Callable[..., Scene], enter: Callable[..., Root], tmp_path: Path
) -> None:
    host = scene(ask)
    family = host.system.family
    root = answering(enter(host, "cloud"), host.plan)
    cloud = machine(root, tmp_path)
    with_user_data(root, family, render(host.plan, "cloud-init"))

    boot(cloud)
    assert errors(root) == []
    assert wait_for(lambda: any(call.startswith("shutdown -r now") for call in cloud.calls()))
    assert root.inside(PER_BOOT).exists()
    half = installed(root, family)
    # Called again in the same boot, the rest waits; in the next one it runs, and is gone.
    cloud.must(PER_BOOT)
    assert installed(root, family) == half
    cloud.reboot()
    boot(cloud)
    assert errors(root) == []
    assert not root.inside(PER_BOOT).exists()
    there = installed(root, family)
    assert len(there) > len(half)
    assert not missing(host.plan, there)
    assert not moved_by_upgrade(root, family)

    other = answering(enter(host, "shell"), host.plan)
    shell = machine(other, tmp_path)
    other.write("/root/plan.sh", render(host.plan, "shell"), 0o755)
    if family == "apt":
        # An installed machine has an index of its own archive; the tree was made without one.
        other.must("apt-get", "update")
    paused = shell.run("/root/plan.sh")
    assert paused.returncode == 5, paused.stdout
    shell.reboot()
    shell.must("/root/plan.sh")
    assert there == installed(other, family)
    assert state(root) == state(other)


def test_another_host_is_refused_before_anything_changes(
    scene: Callable[..., Scene], enter: Callable[..., Root], tmp_path: Path
) -> None:
    host = scene(ASKED["ubuntu24.04"])
    root = enter(host, "cloud")
    root.write("/etc/os-release", "ID=debian\nVERSION_ID=12\n")
    cloud = machine(root, tmp_path)
    with_user_data(root, host.system.family, render(host.plan, "cloud-init"))
    packages, files = installed(root, host.system.family), state(root)
    told = [cloud.run("cloud-init", *stage).stdout for stage in STAGES][-1]
    assert "error: this plan is for Ubuntu 24.04 LTS on x86_64; this host is debian 12 on x86_64: nothing" in told
    assert any("Failed to run module scripts-user" in line for line in errors(root))
    assert installed(root, host.system.family) == packages
    assert state(root) == files
    assert not root.inside("/var/lib/gpustack/cloud-init").exists()
    assert not cloud.calls()
