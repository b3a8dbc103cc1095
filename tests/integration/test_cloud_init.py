"""User-data for real: cloud-init's own modules take a tree to the state that the shell form takes it to."""

from __future__ import annotations

import configparser
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.integration.boots import Machine, machine
from tests.integration.field import Ask, Scene
from tests.integration.managers import installed, missing, moved_by_upgrade
from tests.integration.roots import Root

from gpustack.render.api import render

ASKED = {
    "ubuntu24.04": Ask("ubuntu24.04", ("driver", "cuda", "cudnn", "container-toolkit")),
    "rhel9": Ask("rhel9.4", ("driver", "cuda", "cudnn", "container-toolkit")),
}
DISTRO = {"apt": "debian", "dnf": "rhel"}
PER_BOOT = "/var/lib/cloud/scripts/per-boot/gpustack-1.sh"
OTHER_FILES = (
    *("etc/apt/sources.list.d/", "etc/yum.repos.d/", "etc/apt/preferences.d/cuda-repository-pin-600"),
    *("etc/cloud/", "etc/hosts", "etc/ld.so.cache"),
)
"""Sources are compared by what the package manager reads; cuda-keyring has preferences of its own; the address in
/etc/hosts is that of each tree's own server."""


def boot(host: Machine) -> None:
    """What the four services of cloud-init do, one after the other, in one boot."""
    for stage in (["init", "--local"], ["init"], ["modules", "--mode=config"], ["modules", "--mode=final"]):
        host.must("cloud-init", *stage)


def with_user_data(root: Root, family: str, user_data: str) -> None:
    settings = {
        "datasource_list": ["NoCloud"],
        "network": {"config": "disabled"},
        # The tree has the archive of the tests in its sources; without this the module writes a mirror of its own.
        "apt": {"preserve_sources_list": True},
        "cloud_init_modules": ["write-files"],
        "cloud_config_modules": ["apt-configure", "yum-add-repo", "runcmd"],
        "cloud_final_modules": [
            *("package-update-upgrade-install", "scripts-per-boot", "scripts-user", "power-state-change")
        ],
        "system_info": {"distro": DISTRO[family]},
    }
    root.write("/etc/cloud/cloud.cfg", yaml.safe_dump(settings))
    root.write("/var/lib/cloud/seed/nocloud/meta-data", "instance-id: tests\n")
    root.write("/var/lib/cloud/seed/nocloud/user-data", user_data)


def errors(root: Root) -> list[str]:
    log = root.inside("/var/log/cloud-init.log").read_text().splitlines()
    return [line for line in log if "[WARNING]" in line or "[ERROR]" in line or "Traceback" in line]


def sources(root: Root, family: str) -> set[tuple[str, ...]]:
    """The repositories as the package manager reads them, with the key that each is checked by."""
    if family == "apt":
        told = root.must("apt-get", "indextargets", "--format", "$(REPO_URI)|$(SIGNED_BY)", "Created-By: Packages")
        rows = [line.split("|") for line in told.splitlines()]
        # apt leaves a field as it stands where a source has none: the archive of the tests is trusted without a key.
        return {(uri, _fingerprints(root, key) if key.startswith("/") else "") for uri, key in rows}
    found = set()
    for path in root.inside("/etc/yum.repos.d").glob("*.repo"):
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(path)
        for name in parser.sections():
            options = {
                key: {"true": "1", "false": "0"}.get(value.lower(), value) for key, value in parser[name].items()
            }
            key = options.get("gpgkey", "").removeprefix("file://")
            found.add(
                (name, *(f"{one}={options[one]}" for one in sorted(options)), _fingerprints(root, key) if key else "")
            )
    return found


def _fingerprints(root: Root, keyring: str) -> str:
    told = root.must("gpg", "--batch", "--show-keys", "--with-colons", keyring)
    return " ".join(line.split(":")[9] for line in told.splitlines() if line.startswith("fpr:"))


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
    end = time.monotonic() + 60
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_its_modules_lead_where_the_shell_form_leads(
    ask: Ask, scene: Callable[..., Scene], enter: Callable[..., Root], tmp_path: Path
) -> None:
    host = scene(ask)
    family = host.system.family
    root = enter(host, "cloud")
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

    other = enter(host, "shell")
    shell = machine(other, tmp_path)
    other.write("/root/plan.sh", render(host.plan, "shell"), 0o755)
    if family == "apt":
        # An installed machine has an index of its own archive; the tree was made without one.
        other.must("apt-get", "update")
    paused = shell.run("/root/plan.sh")
    assert paused.returncode == 5, paused.stdout
    shell.reboot()
    shell.must("/root/plan.sh")
    # The source with its key stands in for the package that brings both.
    expected = {name: version for name, version in installed(other, family).items() if name != "cuda-keyring"}
    assert there == expected
    assert sources(root, family) == sources(other, family)
    assert state(root) == state(other)
