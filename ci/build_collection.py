"""The Ansible collection gpustack.provision.

    .venv/bin/python ci/build_collection.py FOLDER

writes FOLDER/ansible_collections/gpustack/provision, as ansible-test and ansible-lint want it, and
FOLDER/gpustack-provision-VERSION.tar.gz, which `ansible-galaxy collection install` installs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORES = ("2.16", "2.17", "2.18", "2.19", "2.20")
"""The releases of ansible-core whose sanity tests find the list of what they may find."""


def tree(folder: Path) -> Path:
    """The collection as files."""
    sys.path.insert(0, str(ROOT / "src"))
    from gpustack import __version__
    from gpustack.fleet.declared import module_text

    target = folder / "ansible_collections" / "gpustack" / "provision"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ROOT / "collection", target, ignore=shutil.ignore_patterns("__pycache__"))
    galaxy = target / "galaxy.yml"
    galaxy.write_text(galaxy.read_text(encoding="utf-8").replace("@VERSION@", __version__), encoding="utf-8")
    (target / "plugins" / "modules" / "evidence.sh").write_text(module_text(), encoding="utf-8")
    shutil.copy(ROOT / "LICENSE", target / "LICENSE")
    ignored = target / "tests" / "sanity" / "ignore.txt"
    for core in CORES:
        shutil.copy(ignored, ignored.with_name(f"ignore-{core}.txt"))
    ignored.unlink()
    return target


def main(folder: Path) -> None:
    """Build the archive."""
    source = tree(folder)
    galaxy = Path(sys.executable).with_name("ansible-galaxy")
    command = [str(galaxy), "collection", "build", "--force", "--output-path", str(folder), str(source)]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]).resolve())
