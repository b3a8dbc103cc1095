"""Ansible as the tests run it: its settings, and the one collection that playbooks for SUSE need."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.integration.roots import own_folder
from tests.unit.render.cases import tool

BUNDLE = "ansible==12.3.0"
"""The package of ansible-core 2.19's time that carries community.general; nothing else of it is unpacked."""
COLLECTION = "ansible_collections/community/general/"


def collections() -> Path:
    """The folder with the collection, fetched once for this machine with pip."""
    home = own_folder(Path(tempfile.gettempdir()) / f"gpustack-tests-{os.getuid()}")
    found = home / BUNDLE
    with (home / "collections.lock").open("w") as lock:
        # Of several test processes one fetches it, and the others wait.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.exists():
            _fetch(found)
    return found


def _fetch(target: Path) -> None:
    new = target.with_name("collections.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    words = ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check", BUNDLE]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words, "--dest", str(new)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    [wheel] = new.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(new, [name for name in archive.namelist() if name.startswith(COLLECTION)])
    wheel.unlink()
    new.rename(target)


def ansible(program: str, *arguments: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run one of Ansible's programs in a folder, with nothing of this machine's settings."""
    environment = {
        "HOME": str(cwd),
        "PATH": f"{Path(tool(program)).parent}:{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_HOME": str(cwd / ".ansible"),
        "ANSIBLE_COLLECTIONS_PATH": str(collections()),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_PIPELINING": "1",  # one process for a task in place of five
        **more,
    }
    return subprocess.run(
        [tool(program), *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
