"""verify's TensorRT child with the Python module of every era from 8.0 to 11.

The libraries of TensorRT 9 to 11 are not to be had from a package index; their Python bindings are. So the names of the
real bindings are compared with those of a stand-in, and the child is run against the stand-in from building to
measuring. That the libraries behind the names do what they say was seen for 8.6.0 on GPUs (tests/fixtures/h200, h100).
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from array import array
from pathlib import Path
from typing import Any

import pytest
from tests.media.conftest import L4, Check, Wheel, host_with
from tests.media.stubs import tensorrt_era

from gpustack.verify.tensorrt.libraries import CHILD
from gpustack.verify.tensorrt.onnx import INPUT, OUTPUT
from gpustack.verify.tensorrt.smoke import as_floats, compared, lay_model

STUBS = Path(__file__).parent / "stubs"
ERAS = tuple(tensorrt_era.LACKS)

_ASK = """
import importlib, json, sys
module = importlib.import_module("tensorrt_bindings")
names = json.loads(sys.argv[1])
has = [one for one in names if hasattr(getattr(module, one.split(".")[0], None), one.split(".")[1])]
print(json.dumps([module.__version__, has]))
"""
_LIBRARY = """
#define NOTHING(name) void *name(void) { return 0; }
NOTHING(createInferBuilder_INTERNAL) NOTHING(createInferRuntime_INTERNAL) NOTHING(createInferRefitter_INTERNAL)
NOTHING(createNvOnnxParser_INTERNAL) NOTHING(createNvOnnxParserRefitter_INTERNAL) NOTHING(getNvOnnxParserVersion)
NOTHING(getPluginRegistry) NOTHING(getBuilderPluginRegistry) NOTHING(initLibNvInferPlugins)
"""


@pytest.fixture(scope="module")
def hollow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Libraries with the names that the real bindings link to, and nothing behind them."""
    folder = tmp_path_factory.mktemp("hollow")
    (folder / "nothing.c").write_text(_LIBRARY)
    for major in (10, 11):
        for name in ("libnvinfer", "libnvinfer_plugin", "libnvonnxparser"):
            soname = f"{name}.so.{major}"
            words = ["-shared", "-fPIC", f"-Wl,-soname,{soname}", "-o", str(folder / soname), str(folder / "nothing.c")]
            subprocess.run(["gcc", *words], check=True)
    return folder


REAL = [
    ("tensorrt-cu12-bindings==10.0.1", "10.0.1"),
    ("tensorrt-cu12-bindings==10.13.3.9", "10.13.3.9"),
    ("tensorrt-cu13-bindings==11.4.0.106", "11.4.0.106"),
]


@pytest.mark.parametrize(("package", "era"), REAL)
def test_the_names_of_an_era_are_those_of_the_real_bindings(wheel: Wheel, hollow: Path, package: str, era: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(wheel(package)), "LD_LIBRARY_PATH": str(hollow)}
    command = [sys.executable, "-c", _ASK, json.dumps(tensorrt_era.NAMES)]
    told = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    release, names = json.loads(told.stdout)
    assert release == era
    assert set(tensorrt_era.NAMES) - set(names) == set(tensorrt_era.LACKS[era])


def test_bindings_without_their_library_are_told(check: Check, wheel: Wheel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real bindings of 11.4, as they are where the library's package is missing."""
    monkeypatch.setenv("PYTHONPATH", str(wheel("tensorrt-cu13-bindings==11.4.0.106")))
    found = check("tensorrt", "quick", host_with(L4), python=sys.executable)["tensorrt.found"]
    assert found.status == "fail"
    assert "Python's tensorrt_bindings does not import" in found.reason
    assert ".so.11: cannot open shared object file" in found.reason


def test_the_child_asks_for_no_name_that_is_not_compared() -> None:
    """Every attribute of TensorRT's objects in the child is one of the names above, or is looked for before use."""
    tree = ast.parse(CHILD.read_text(encoding="utf-8"))
    of = {"builder": "Builder", "parser": "OnnxParser", "config": "IBuilderConfig", "runtime": "Runtime"}
    of |= {"engine": "ICudaEngine"}
    asked = {
        f"{of[node.value.id]}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in of
    }
    assert asked
    assert asked <= set(tensorrt_era.NAMES)


class Child:
    """The child of verify with the stand-in as its module ``tensorrt``, and a stand-in for the driver."""

    def __init__(self, folder: Path, era: str, batch: int) -> None:
        self.folder, self.batch = folder, batch
        modules = folder / "modules"
        modules.mkdir()
        shutil.copy(STUBS / "tensorrt_era.py", modules / "tensorrt.py")
        words = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(folder / "libcuda.so.1")]
        subprocess.run(["gcc", *words, str(STUBS / "cuda_memory.c")], check=True)
        self.model, self.floats, self.digits = lay_model(folder, batch)
        answers, pictures = folder / "answers.f32", folder / "known.f32"
        answers.write_bytes(b"".join(array("f", row).tobytes() for row in self.digits.probabilities))
        pictures.write_bytes(b"".join(as_floats(one) for one in self.digits.pictures))
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(modules),
            "LD_LIBRARY_PATH": str(folder),
            "TENSORRT_ERA": era,
            "TENSORRT_ERA_BATCH": str(batch),
            "TENSORRT_ERA_PICTURES": str(pictures),
            "TENSORRT_ERA_ANSWERS": str(answers),
        }

    def ask(self, **request: Any) -> dict[str, Any]:
        place = self.folder / "request.json"
        place.write_text(json.dumps({"module": "tensorrt", "engine": str(self.folder / "engine"), **request}))
        command = [sys.executable, str(CHILD), str(place)]
        ended = subprocess.run(command, capture_output=True, text=True, check=True, env=self._environment, timeout=60)
        answer: dict[str, Any] = json.loads(ended.stdout)
        return answer

    def run(self, **more: Any) -> dict[str, Any]:
        about = {"input": str(self.floats), "input_name": INPUT, "output_name": OUTPUT, "batch": self.batch}
        return self.ask(do="run", **about, **more)


@pytest.mark.parametrize("era", ERAS)
def test_the_child_builds_runs_and_measures_with_every_era(tmp_path: Path, era: str) -> None:
    child = Child(tmp_path, era, batch=8)
    built = child.ask(do="build", onnx=str(child.model))
    assert (built["ok"], built["version"], built["messages"]) == (True, era, ["WARNING: this is a stand-in"])
    assert child.ask(do="read")["ok"]
    told = child.run(streams=[1, 3], iterations=10, profile=True)
    assert told["ok"], told
    single = [row[at : at + 10] for row in told["outputs"] for at in range(0, len(row), 10)]
    worst, fault = compared(single, child.digits)
    assert (worst < 1e-6, fault) == (True, "")
    assert len(single) == 24, "20 pictures in batches of 8"
    one, three = told["timing"]
    assert [len(one["samples"]["latency_ms"]), len(three["samples"]["latency_ms"])] == [10, 30]
    assert len(three["samples"]["wall_ms"]) == 10
    assert one["runs_per_second"] > 0
    assert list(told["layers"]) == ["look up"]
    assert told["device_memory"] == (
        8192 if tensorrt_era.LACKS[era].count("ICudaEngine.device_memory_size_v2") == 0 else 4096
    )


@pytest.mark.parametrize("era", ERAS)
def test_what_an_era_cannot_be_asked_for_is_an_error(tmp_path: Path, era: str) -> None:
    child = Child(tmp_path, era, batch=1)
    for precision in ("fp16", "bf16"):
        answer = child.ask(do="build", onnx=str(child.model), precision=precision)
        lacks = f"BuilderFlag.{precision.upper()}" in tensorrt_era.LACKS[era]
        assert answer["ok"] is not lacks
        assert not lacks or precision.upper() in answer["messages"][-1]


def test_failures_come_back_in_tensorrts_own_words(tmp_path: Path) -> None:
    child = Child(tmp_path, "11.4.0.106", batch=1)
    other = tmp_path / "other.onnx"
    other.write_bytes(b"no model")
    answer = child.ask(do="build", onnx=str(other))
    assert (answer["ok"], answer["stage"]) == (False, "parse")
    assert answer["messages"][0].startswith("In node -1")
    (tmp_path / "engine").write_bytes(b"damaged")
    for one in (child.ask(do="read"), child.run()):
        assert (one["ok"], one["stage"]) == (False, "load")
        assert "header.size == blobSize" in one["messages"][0]
