"""Real wheels of the index in real environments: what detect reads of them, and what the probes of verify answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from gpustack.detect.api import detect
from gpustack.matrix.index import load_matrix
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
    from gpustack.detect.environments.elf import read_library

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


def test_torch_without_cuda(tmp_path: Path) -> None:
    """The index of this test may have torch for the CPU only: then the probe says that it has no CUDA."""
    home = tmp_path / "torch"
    venv.EnvBuilder(symlinks=True, with_pip=True).create(home)
    subprocess.run([str(home / "bin/python"), "-m", "pip", "install", "-q", "torch", "numpy"], check=True, timeout=3000)
    steps = probe(home, "torch")
    assert "end" in steps
    assert steps["imported"]["version"]
    if not steps["imported"]["cuda"]:
        found = detect(None, load_matrix(), python=str(home / "bin/python")).environments or ()
        mine = next(one for one in found if one.path == str(home))
        assert "torch" in mine.packages


def test_a_missing_framework_is_an_answer(tmp_path: Path) -> None:
    venv.EnvBuilder(symlinks=True).create(tmp_path)
    for component in ("torch", "tensorflow", "jax", "cupy", "vllm"):
        steps = probe(tmp_path, component)
        assert steps["failed"]["kind"] == "ModuleNotFoundError", component
    assert sys.version_info >= (3, 10)
