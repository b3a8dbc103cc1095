"""Make the project's virtual environment with nothing but a system Python 3.10+.

Shared by ci/start.py (the main job) and ci/test.py (the tests). Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
OLDEST = (3, 10)


def environment(*, for_tests: bool = False) -> Path:
    """The Python of the project's environment, made or brought up to date as needed."""
    if sys.version_info < OLDEST:
        sys.exit(f"gpustack needs Python {OLDEST[0]}.{OLDEST[1]} or newer; this is {sys.version.split()[0]}")
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        create(ENVIRONMENT)
    wanted = [ROOT / "pyproject.toml", ROOT / "ci" / "build_hook.py", *([REQUIREMENTS] if for_tests else [])]
    stamp = ENVIRONMENT / f"stamp-{'tests' if for_tests else 'run'}"
    state = hashlib.sha256(b"".join(path.read_bytes() for path in wanted)).hexdigest()
    if not stamp.exists() or stamp.read_text() != state:
        pip = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--root-user-action=ignore",
        ]
        say("installing gpustack and what it needs into .venv")
        run([*pip, "--editable", str(ROOT)])
        if for_tests:
            run([*pip, "--requirement", str(REQUIREMENTS)])
        stamp.write_text(state)
    return python


REQUIREMENTS = ROOT / "ci" / "requirements-test.txt"


def create(place: Path) -> None:
    """A virtual environment; where the distribution left ensurepip out, its package is installed first (as root)."""
    command = [sys.executable, "-m", "venv", str(place)]
    if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 0:
        return
    shutil.rmtree(place, ignore_errors=True)
    install_packages(["python3-venv"])
    run(command)


def install_packages(names: list[str]) -> None:
    """Debian packages that are missing, where this is root on an apt system; elsewhere say what to install."""
    if not names:
        return
    if not shutil.which("apt-get") or os.geteuid() != 0:
        sys.exit(f"please install: {' '.join(names)}")
    say(f"installing {' '.join(names)}")
    settings = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "--yes", "--no-install-recommends", *names]
    if subprocess.run(install, check=False, env=settings, stdout=subprocess.DEVNULL).returncode != 0:
        subprocess.run(["apt-get", "update"], check=True, env=settings, stdout=subprocess.DEVNULL)
        subprocess.run(install, check=True, env=settings, stdout=subprocess.DEVNULL)


def run(command: list[str]) -> None:
    """Run a command; stop with its exit code when it fails."""
    code = subprocess.run(command, check=False, cwd=ROOT).returncode
    if code != 0:
        sys.exit(code)


def say(text: str) -> None:
    print(f"gpustack: {text}", file=sys.stderr, flush=True)
