"""The wheel as users install it: by pip, pipx and uv, on every Python that it is for and that this machine has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpustack import resources

pytestmark = pytest.mark.slow

ROOT = resources.folder("matrices").parent
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
PLAN = ("plan", "cuda", "cudnn", "--os", "ubuntu24.04", "--gpu", "L4", "--format", "json")


def interpreter(version: str) -> Path:
    """The Python of this version: of pyenv, or on the PATH. Skips where there is none."""
    places = [
        *Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{version}.*/bin/python"),
        *(Path(folder) / f"python{version}" for folder in os.environ["PATH"].split(":")),
    ]
    for place in places:
        if place.exists() and run(place, "-c", "pass", is_tried=True).returncode == 0:
            return place.resolve()
    return pytest.skip(f"no Python {version} on this machine")


def run(*words: str | Path, is_tried: bool = False, **env: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(word) for word in words], env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    assert is_tried or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the programs uv and pipx, newest of the package index."""
    folder = tmp_path_factory.mktemp("tools")
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin/python", "-m", "pip", "install", "--quiet", "uv", "pipx")
    return folder / "bin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    (found,) = folder.glob("gpustack_provision-*.whl")
    return found


@pytest.fixture(scope="module")
def digest() -> str:
    """The digest of the plan that this environment's gpustack makes."""
    return str(json.loads(run(Path(sys.executable).parent / "gpustack", *PLAN).stdout)["digest"])


def demand_same_plan(folder: Path, digest: str) -> None:
    for name in ("gpustack", "gpustack-provision"):
        assert run(folder / name, "--version").stdout.startswith("gpustack 0")
    assert json.loads(run(folder / "gpustack", *PLAN).stdout)["digest"] == digest


@pytest.mark.parametrize("version", VERSIONS)
def test_pip(version: str, wheel: Path, digest: str, tmp_path: Path) -> None:
    run(interpreter(version), "-m", "venv", tmp_path / "env")
    run(tmp_path / "env/bin/python", "-m", "pip", "install", "--quiet", wheel)
    demand_same_plan(tmp_path / "env/bin", digest)


@pytest.mark.parametrize("version", VERSIONS)
def test_pipx(version: str, wheel: Path, digest: str, tools: Path, tmp_path: Path) -> None:
    home = {"PIPX_HOME": str(tmp_path / "home"), "PIPX_BIN_DIR": str(tmp_path / "bin"), "PIPX_MAN_DIR": str(tmp_path)}
    run(tools / "pipx", "install", "--python", interpreter(version), wheel, **home)
    demand_same_plan(tmp_path / "bin", digest)
    run(tools / "pipx", "uninstall", "gpustack-provision", **home)
    assert list((tmp_path / "bin").iterdir()) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_uv(version: str, wheel: Path, digest: str, tools: Path, tmp_path: Path) -> None:
    """As a tool, and without installing it, by the name that it has on an index."""
    home = {
        "UV_TOOL_DIR": str(tmp_path / "tools"),
        "UV_TOOL_BIN_DIR": str(tmp_path / "bin"),
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_PYTHON": str(interpreter(version)),
    }
    run(tools / "uv", "tool", "install", wheel, **home)
    demand_same_plan(tmp_path / "bin", digest)
    once = run(tools / "uvx", "--find-links", wheel.parent, "gpustack-provision", "--version", **home)
    assert once.stdout.startswith("gpustack 0")
