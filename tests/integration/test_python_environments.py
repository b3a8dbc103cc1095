"""Real wheels of the index in real environments: what detect reads of them, and what the probes of verify answer."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpustack.detect.api import detect
from gpustack.detect.environments.elf import read_library
from gpustack.matrix.index import load_matrix
from gpustack.model.frameworks import pins
from gpustack.model.host import PythonEnvironment
from gpustack.verify.samples import FOLDER

pytestmark = pytest.mark.slow


def environment(home: Path, *wheels: str) -> PythonEnvironment:
    """An environment with wheels of the index, without what they require, as detect reads it."""
    venv.EnvBuilder(symlinks=True, with_pip=True).create(home)
    python = str(home / "bin/python")
    command = [python, "-m", "pip", "install", "-q", "--no-deps", "--only-binary", ":all:", *wheels]
    subprocess.run(command, check=True, timeout=1800)
    found = detect(None, load_matrix(), python=python).environments or ()
    return next(one for one in found if one.path == str(home))


def probe(home: Path, component: str, *files: str) -> dict[str, dict[str, object]]:
    command = [str(home / "bin/python"), str(FOLDER / "framework_probe.py"), component, "smoke", *files]
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=kept)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {str(line["step"]): line for line in lines}


def test_onnxruntime_gpu(tmp_path: Path) -> None:
    found = environment(tmp_path, "onnxruntime-gpu==1.22.0", "numpy")
    assert found.packages["onnxruntime-gpu"] == "1.22.0"
    site = Path(found.site)
    handle = os.open(site / "onnxruntime/capi/libonnxruntime_providers_cuda.so", os.O_RDONLY)
    try:
        content = read_library(handle)
    finally:
        os.close(handle)
    assert content is not None
    assert {"libcudnn.so.9", "libcublas.so.12", "libcudart.so.12"} <= set(content.needed)
    assert (content.sm, content.ptx) == ((60, 70, 75, 80, 86, 90), (90,))


def test_jax_with_its_plugin(tmp_path: Path) -> None:
    found = environment(tmp_path, "jax-cuda12-plugin", "jax-cuda12-pjrt")
    assert {"jax-cuda12-plugin", "jax-cuda12-pjrt"} <= found.packages.keys()


def test_pyav_of_the_index_decodes_with_nvdec(tmp_path: Path) -> None:
    found = environment(tmp_path, "av")
    assert "av" in found.packages
    assert "environment-codecs" not in {one.id for one in found.problems}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A folder for gigabytes, which does not outlast the test."""
    place = tmp_path / "home"
    yield place
    shutil.rmtree(place, ignore_errors=True)


def with_requirements(home: Path, *wheels: str) -> PythonEnvironment:
    """An environment with wheels and everything that they require, as detect reads it."""
    venv.EnvBuilder(symlinks=True, with_pip=True).create(home)
    python = str(home / "bin/python")
    command = [python, "-m", "pip", "install", "-q", "--no-cache-dir", "--only-binary", ":all:", *wheels]
    subprocess.run(command, check=True, timeout=3000)
    found = detect(None, load_matrix(), python=python).environments or ()
    return next(one for one in found if one.path == str(home))


@pytest.mark.parametrize("release", ["2.5.1", "2.9.1"])
def test_torch_with_cuda(release: str, home: Path) -> None:
    """The facts about a wheel are what lies in it, and without a driver the probe names the reason."""
    found = with_requirements(home, f"torch=={release}", "numpy")
    known = next(
        one
        for one in load_matrix().builds("torch")
        if (one.version, one.platform, one.local) == (release, "linux-x86_64", "")
    )
    handle = os.open(Path(found.site, "torch/lib/libtorch_cuda.so"), os.O_RDONLY)
    try:
        content = read_library(handle)
    finally:
        os.close(handle)
    assert content is not None
    assert {f"{one // 10}.{one % 10}" for one in content.sm} == set(known.sass)
    assert "libc10_cuda.so" in content.needed
    for name, pin in pins(known.requires).items():
        assert pin in {"", f"=={found.packages[name]}"}, name
    assert not {"environment-pins", "environment-broken"} & {one.id for one in found.problems}
    steps = probe(home, "torch")
    assert str(steps["imported"]["version"]).partition("+")[0] == release
    assert steps["imported"]["cuda"] == known.cuda
    assert "end" in steps
    if steps["devices"]["count"] == 0:
        assert "driver" in steps


def test_torch_without_cuda(home: Path) -> None:
    """A build for the CPU, where the package sources of this machine have one: then the probe says so."""
    listed = [sys.executable, "-m", "pip", "index", "versions", "torch"]
    told = subprocess.run(listed, capture_output=True, text=True, timeout=300, check=False).stdout
    releases = re.findall(r"\b(\d[\d.]*\+cpu)\b", told)
    if not releases:
        pytest.skip("no package source of this machine has a build of torch for the CPU")
    found = with_requirements(home, f"torch=={releases[0]}", "numpy")
    assert found.packages["torch"] == releases[0]
    steps = probe(home, "torch")
    assert steps["imported"]["version"] == releases[0]
    assert not steps["imported"]["cuda"]
    assert "end" in steps


def test_a_missing_framework_is_an_answer(tmp_path: Path) -> None:
    venv.EnvBuilder(symlinks=True).create(tmp_path)
    for component in ("torch", "tensorflow", "jax", "cupy", "vllm"):
        steps = probe(tmp_path, component)
        assert steps["failed"]["kind"] == "ModuleNotFoundError", component
    assert sys.version_info >= (3, 10)
