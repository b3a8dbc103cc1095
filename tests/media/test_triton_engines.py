"""From what verify built to a model repository: kept, chosen for a server's release, laid out, judged, offered."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.media.conftest import Check, Wheel, host_with
from tests.media.test_triton import CONFIG, head, tritonserver, until

from gpustack.errors import DocumentError, UsageError
from gpustack.matrix.index import Matrix
from gpustack.system.run import Background
from gpustack.triton import v2
from gpustack.triton.artifacts import choose_files, keep_file, read_kept
from gpustack.triton.client import Server
from gpustack.triton.rules import judge
from gpustack.triton.served import tensorrt_of_triton
from gpustack.verify.tensorrt import onnx
from gpustack.verify.triton.own_server import ServerProgram, find_free_ports, write_double

__all__ = ["tritonserver"]


def gpustack(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpustack", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def store_with(folder: Path, *files: tuple[str, bytes]) -> Path:
    model = folder / "store" / "net"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(CONFIG)
    for name, data in files:
        (model / "1" / name).write_bytes(data)
    return folder / "store"


@pytest.mark.parametrize(
    ("data", "release", "told"),
    [
        (
            head("8.6.1.6"),
            "24.02",
            "error: net/1/model.plan: it was built by TensorRT 8.6.1.6, but Triton 24.02 has 8.6.3",
        ),
        (head("8.6.1.6")[:60], "24.02", "error: net/1/model.plan: the file is truncated: it has 60 of 100 bytes"),
        (b"", "24.02", "error: net/1/model.plan: the file is empty"),
        (b"\x08\x07\x12\x08gpustack" + bytes(60), "24.02", "it looks like an ONNX file: build an engine from it first"),
        (
            b"vtrt" + head("1.7.1.116")[4:],
            "24.02",
            "error: net/1/model.plan: is an engine of TensorRT-RTX 1.7.1.116, which Triton does not support",
        ),
        (
            b"ptrt" + bytes(4) + (232).to_bytes(8, "little") + bytes(84),
            "22.10",
            "warning: net/1/model.plan: it was built by TensorRT 8.5, and Triton 22.10 has 8.5: it loads only if",
        ),
    ],
)
def test_engines_of_a_repository_are_judged_by_their_headers(
    matrix: Matrix, tmp_path: Path, data: bytes, release: str, told: str
) -> None:
    found = judge(matrix, store_with(tmp_path, ("model.plan", data)), release)
    lines = [f"{one.severity}: {one.place}: {one.message}" for one in found.findings]
    assert [one for one in lines if told in one], lines
    assert found.is_good is told.startswith("warning")


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """What two machines built with TensorRT 8.6.3, one of them with another TensorRT and TensorRT-RTX too."""
    folder, engine = tmp_path / "kept", tmp_path / "digits.engine"
    for number, kind, capability in (
        ("8.6.3.1", "tensorrt", "8.9"), ("8.6.3.1", "tensorrt", "9.0"), ("8.6.1.6", "tensorrt", "9.0"),
        ("1.7.1.116", "tensorrt-rtx", "8.9"),
    ):  # fmt: skip
        engine.write_bytes(head(number, 103)[:-3] + capability.encode())
        keep_file(folder, engine, kind, "digits", version=number, capability=capability)
    engine.write_bytes(b"onnx")
    keep_file(folder, engine, "onnx", "digits")
    return folder


def test_a_server_gets_the_engines_of_its_own_tensorrt(matrix: Matrix, kept: Path) -> None:
    assert len(read_kept(kept)) == 5
    chosen = choose_files(kept, "24.02", tensorrt_of_triton(matrix, "24.02") or "")
    assert (chosen.platform, sorted(chosen.files)) == ("tensorrt_plan", ["8.9", "9.0"])
    assert {path.name for path in chosen.files.values()} == {
        "digits-tensorrt-8.6.3.1-cc8.9.engine",
        "digits-tensorrt-8.6.3.1-cc9.0.engine",
    }
    assert [one for one in chosen.skipped if "built by TensorRT 8.6.1.6, but Triton 24.02 has 8.6.3" in one]
    assert [one for one in chosen.skipped if "Triton does not support engines of TensorRT-RTX" in one]
    other = choose_files(kept, "25.03", tensorrt_of_triton(matrix, "25.03") or "")
    assert (other.platform, {one.name for one in other.files.values()}) == ("onnxruntime_onnx", {"digits.onnx"})


def test_what_was_kept_is_what_is_served(kept: Path, tmp_path: Path) -> None:
    (kept / "digits.onnx").write_bytes(b"other")
    with pytest.raises(DocumentError, match="was changed"):
        read_kept(kept)
    (kept / "digits.onnx.about.json").write_text(
        json.dumps({"file": "../x", "kind": "onnx", "sha256": "", "network": ""})
    )
    with pytest.raises(DocumentError, match="was changed"):
        read_kept(kept)
    (kept / "digits.onnx.about.json").write_text("{")
    with pytest.raises(DocumentError, match="the description cannot be read"):
        read_kept(kept)
    with pytest.raises(DocumentError, match="the folder has no artifacts of gpustack verify"):
        read_kept(tmp_path)


def test_a_release_that_is_known_in_part_takes_what_may_fit(kept: Path) -> None:
    chosen = choose_files(kept, "24.05", "8.6")
    assert sorted(chosen.files) == ["8.9", "9.0"]
    assert choose_files(kept, "25.03", "").platform == "onnxruntime_onnx"


def test_nothing_that_fits_is_refused_with_each_reason(kept: Path) -> None:
    (kept / "digits.onnx.about.json").unlink()
    with pytest.raises(UsageError, match="no file is compatible with Triton") as caught:
        choose_files(kept, "25.03", "10.9.0.34")
    assert "digits-tensorrt-8.6.1.6-cc9.0.engine: built by TensorRT 8.6.1.6" in str(caught.value)


def test_engines_are_laid_out_for_each_compute_capability(kept: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    done = gpustack("triton", "model-store", str(store), "--from", str(kept), "--release", "24.02", "--keep", "2")
    assert (done.returncode, done.stdout) == (0, "gpustack_digits: version 1\n0 faults for Triton 24.02\n")
    assert "warning: skipped: digits-tensorrt-8.6.1.6-cc9.0.engine" in done.stderr
    folder = store / "gpustack_digits"
    assert sorted(one.name for one in (folder / "1").iterdir()) == ["model_cc8_9.plan", "model_cc9_0.plan"]
    config = (folder / "config.pbtxt").read_text()
    assert 'platform: "tensorrt_plan"' in config
    assert "num_versions: 2" in config
    both = gpustack("triton", "model-store", str(store), "--from", str(kept), "--engine", "x")
    assert (both.returncode, "use one of them" in both.stderr) == (2, True)


@pytest.fixture(scope="module")
def built(wheel: Wheel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `verify --artifacts` keeps where TensorRT-RTX is: its engines, built for real, and the ONNX file."""
    folder = tmp_path_factory.mktemp("artifacts") / "kept"
    release = "1.7.1.116"
    wheels = [str(wheel(f"tensorrt-rtx-cu13-{part}=={release}")) for part in ("bindings", "libs")]
    import os

    path = os.pathsep.join([*wheels, *filter(None, [os.environ.get("PYTHONPATH")])])
    words = ("verify", "tensorrt", "--level", "smoke", "--artifacts", str(folder), "--format", "json")
    done = gpustack(*words, env={**os.environ, "PYTHONPATH": path})
    checks = {one["id"]: one for one in json.loads(done.stdout)["checks"]}
    assert checks["tensorrt.rtx"]["status"] == "pass", done.stdout + done.stderr
    return folder


def test_what_verify_built_is_kept_with_what_it_is(built: Path) -> None:
    found = {(one.kind, one.version, one.compute_capability) for one in read_kept(built)}
    rtx = {("tensorrt-rtx", "1.7.1.116", one) for one in ("8.0", "8.6", "8.9", "12.0")}
    assert found == {("onnx", "", ""), *rtx}


@pytest.fixture
def offered(tritonserver: ServerProgram, built: Path, tmp_path: Path) -> Iterator[tuple[Server, str]]:
    """A real server over the repository of `model-store --from`, beside a model of its Python backend; and its log."""
    store = tmp_path / "models"
    done = gpustack("triton", "model-store", str(store), "--from", str(built), "--release", "24.11", "--cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gpustack_digits: version 1" in done.stdout
    assert done.stderr.count("Triton does not support engines of TensorRT-RTX") == 4
    write_double(store)
    again = gpustack("triton", "model-store", str(store), "--release", "24.11", "--format", "json")
    assert (again.returncode, json.loads(again.stdout)["findings"]) == (0, [])
    with serving(tritonserver, store, tmp_path, "gpustack_double") as server:
        yield server, (tmp_path / "log").read_text()


@contextmanager
def serving(program: ServerProgram, store: Path, folder: Path, model: str) -> Iterator[Server]:
    """The server over a repository, once ``model`` is ready."""
    ports, log = find_free_ports(), folder / "log"
    words = [f"--{kind}-port={port}" for kind, port in zip(("http", "grpc", "metrics"), ports, strict=True)]
    words += [f"--{kind}-address=127.0.0.1" for kind in ("http", "grpc", "metrics")]
    command = (str(program.path), f"--model-repository={store}", f"--backend-directory={program.backends}")
    with Background((*command, *words, "--exit-on-error=false"), log, cwd=folder):
        server = Server(host="127.0.0.1", port=ports[0])
        assert until(lambda: v2.model_ready(server, model).is_ok), log.read_text()
        yield server


def test_a_real_server_reads_the_repository(offered: tuple[Server, str]) -> None:
    """The wheel's server has the Python backend and not that of ONNX: it serves the one and names what the other lacks."""
    server, log = offered
    states = {str(row["name"]): row for row in v2.index(server)}
    assert states["gpustack_double"]["state"] == "READY"
    assert states["gpustack_digits"]["state"] == "UNAVAILABLE"
    assert "onnxruntime" in str(states["gpustack_digits"]["reason"]), log


BACKEND = """
import os
import sys
sys.path.insert(0, os.environ["PACKAGES"])
import onnxruntime
import triton_python_backend_utils as utils

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        return config

    def initialize(self, args):
        where = os.path.join(args["model_repository"], args["model_version"])
        path = os.path.join(where, "model.onnx")
        for name in os.listdir(where):
            if name.endswith(".plan"):
                with open(os.path.join(where, name), "rb") as engine:
                    if engine.read(4) != b"ftrt":
                        raise ValueError(f"{name} is no engine")
                path = os.environ["NETWORK"]
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def execute(self, requests):
        answers = []
        for one in requests:
            given = {each.name(): each.as_numpy() for each in one.inputs()}
            names = one.requested_output_names()
            found = self.session.run(list(names), given)
            tensors = [utils.Tensor(name, value) for name, value in zip(names, found)]
            answers.append(utils.InferenceResponse(output_tensors=tensors))
        return answers
"""
"""Stands for the server's own backends, which its wheel lacks: the real ONNX Runtime, called from Python.

As backend of TensorRT it looks at the heads of the engine files and computes with the ONNX file that it was built from.
"""


@pytest.fixture
def able(tritonserver: ServerProgram, wheel: Wheel, tmp_path: Path) -> ServerProgram:
    """The real server with stand-ins for its backends of ONNX Runtime and TensorRT."""
    backends = tmp_path / "backends"
    shutil.copytree(tritonserver.backends, backends)
    for name in ("onnxruntime", "tensorrt"):
        (backends / name).mkdir()
        (backends / name / "model.py").write_text(BACKEND)
    program = tmp_path / "tritonserver"
    program.write_text(f'#!/bin/sh\nexport PACKAGES={wheel("onnxruntime==1.20.1")}\nexec {tritonserver.path} "$@"\n')
    program.chmod(0o755)
    return ServerProgram(path=program, backends=backends)


@pytest.mark.parametrize(("release", "platform"), [("25.03", "onnxruntime_onnx"), ("24.02", "tensorrt_plan")])
def test_what_was_kept_is_served_and_verified(
    able: ServerProgram,
    kept: Path,
    check: Check,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    release: str,
    platform: str,
) -> None:
    """From the kept files to right answers over HTTP and gRPC, by a real server."""
    network = tmp_path / "digits.onnx"
    network.write_bytes(onnx.digits_model(onnx.load_digits().weights))
    keep_file(kept, network, "onnx", "digits")
    monkeypatch.setenv("NETWORK", str(network))
    store = tmp_path / "models"
    done = gpustack("triton", "model-store", str(store), "--from", str(kept), "--release", release, "--cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    with serving(able, store, tmp_path, "gpustack_digits") as server:
        found = check("triton", "smoke", host_with(), url=f"http://127.0.0.1:{server.port}")
    assert found["triton.model"].detail.startswith(f"gpustack_digits ({platform}), version 1: input FP32[1, 1, 28, 28]")
    assert found["triton.infer"].detail == "gpustack_digits: HTTP: correct output; gRPC: correct output"
    assert found["triton.statistics"].detail == "gpustack_digits: 2 inferences, 0 failed"
