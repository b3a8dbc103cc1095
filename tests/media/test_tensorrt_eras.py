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
from pathlib import Path
from typing import Any

import pytest
from tests.media.conftest import L4, Check, Wheel, host_with
from tests.media.stubs import tensorrt_era

import gpustack
from gpustack.matrix.index import Matrix
from gpustack.system.run import LocalRunner
from gpustack.triton.artifacts import read_kept
from gpustack.verify.declare import Context
from gpustack.verify.tensorrt.bench import Settings, bench
from gpustack.verify.tensorrt.digits_engine import compare_outputs, write_model
from gpustack.verify.tensorrt.libraries import CHILD
from gpustack.verify.tensorrt.network_bench import SCRIPT
from gpustack.verify.tensorrt.onnx import INPUT, OUTPUT

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
    assert "Python's tensorrt_bindings cannot be imported" in found.reason
    assert ".so.11: cannot open shared object file" in found.reason


def test_the_child_asks_for_no_name_that_is_not_compared() -> None:
    """Every attribute of TensorRT's objects in the child is one of the names above, or is looked for before use."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (CHILD, SCRIPT)]
    of = {"builder": "Builder", "parser": "OnnxParser", "config": "IBuilderConfig", "runtime": "Runtime"}
    of |= {"engine": "ICudaEngine", "network": "INetworkDefinition", "tensor": "ITensor", "layer": "ILayer"}
    of |= {"context": "IExecutionContext"}
    asked = {
        f"{of[node.value.id]}.{node.attr}"
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in of
    }
    assert asked
    assert asked <= set(tensorrt_era.NAMES)


@pytest.fixture(scope="module")
def stands_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the stand-in as the module ``tensorrt``, and a stand-in for the driver."""
    folder = tmp_path_factory.mktemp("era")
    shutil.copy(STUBS / "tensorrt_era.py", folder / "tensorrt.py")
    words = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(folder / "libcuda.so.1")]
    subprocess.run(["gcc", *words, str(STUBS / "cuda_memory.c")], check=True)
    shutil.copy(folder / "libcuda.so.1", folder / "libnvidia-ml.so.1")
    return folder


def settings(stands_in: Path, era: str) -> dict[str, str]:
    """The environment in which ``import tensorrt`` gives the stand-in of ``era``."""
    source = Path(gpustack.__file__).parent.parent
    return {"PYTHONPATH": f"{stands_in}:{source}", "LD_LIBRARY_PATH": str(stands_in), "TENSORRT_ERA": era}


class Child:
    """The child of verify with the stand-in, and its files."""

    def __init__(self, folder: Path, stands_in: Path, era: str, batch: int) -> None:
        self.folder, self.batch = folder, batch
        self.model, self.floats, self.digits = write_model(folder, batch)
        self._environment = {**os.environ, **settings(stands_in, era)}

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
def test_the_child_builds_runs_and_measures_with_every_era(tmp_path: Path, stands_in: Path, era: str) -> None:
    child = Child(tmp_path, stands_in, era, batch=8)
    built = child.ask(do="build", onnx=str(child.model))
    assert (built["ok"], built["version"], built["messages"]) == (True, era, ["WARNING: this is a stand-in"])
    assert child.ask(do="read")["ok"]
    told = child.run(streams=[1, 3], iterations=10, profile=True)
    assert told["ok"], told
    single = [row[at : at + 10] for row in told["outputs"] for at in range(0, len(row), 10)]
    worst, fault = compare_outputs(single, child.digits)
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
def test_what_an_era_cannot_be_asked_for_is_an_error(tmp_path: Path, stands_in: Path, era: str) -> None:
    child = Child(tmp_path, stands_in, era, batch=1)
    for precision in ("fp16", "bf16"):
        answer = child.ask(do="build", onnx=str(child.model), precision=precision)
        lacks = f"BuilderFlag.{precision.upper()}" in tensorrt_era.LACKS[era]
        assert answer["ok"] is not lacks
        assert not lacks or precision.upper() in answer["messages"][-1]


def test_failures_come_back_in_tensorrts_own_words(tmp_path: Path, stands_in: Path) -> None:
    child = Child(tmp_path, stands_in, "11.4.0.106", batch=1)
    other = tmp_path / "other.onnx"
    other.write_bytes(b"no model")
    answer = child.ask(do="build", onnx=str(other))
    assert (answer["ok"], answer["stage"]) == (False, "parse")
    assert answer["messages"][0].startswith("In node -1")
    (tmp_path / "engine").write_bytes(b"damaged")
    for one in (child.ask(do="read"), child.run()):
        assert (one["ok"], one["stage"]) == (False, "load")
        assert "header.size == blobSize" in one["messages"][0]


@pytest.mark.parametrize("era", ["8.0.1", "11.4.0.106"])
def test_verify_builds_runs_keeps_and_loads(
    check: Check, stands_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, era: str
) -> None:
    """The whole of `verify tensorrt --level smoke --artifacts DIR` on a host with a GPU; see the module's first lines."""
    for name, value in settings(stands_in, era).items():
        monkeypatch.setenv(name, value)
    kept = tmp_path / "kept"
    found = check("tensorrt", "smoke", host_with(L4), python=sys.executable, artifacts=str(kept))["tensorrt.build"]
    assert found.status == "pass", found
    assert f"Python's tensorrt {era}: engine of TensorRT {era}" in found.detail
    assert "run in a new process, every output correct; kept as" in found.detail
    assert {(one.kind, one.compute_capability) for one in read_kept(kept)} == {("onnx", ""), ("tensorrt", "8.9")}
    engine = next(kept.glob("*.engine"))
    loaded = check("tensorrt", "smoke", host_with(L4), python=sys.executable, engine=str(engine))
    assert (loaded["tensorrt.engine"].status, loaded["tensorrt.load"].status) == ("skip", "pass")
    header = {"8.0.1": "8.0.1.0"}.get(era, era)  # which has four numbers
    assert loaded["tensorrt.engine"].reason == (
        f"{engine.name}: it was built by TensorRT {header}, as this host has, but its header does not tell for which GPU"
    )
    assert loaded["tensorrt.load"].detail.endswith("it was not run")
    engine.write_bytes(engine.read_bytes()[:-8] + b"damaged!")
    damaged = check("tensorrt", "smoke", host_with(L4), python=sys.executable, engine=str(engine))["tensorrt.load"]
    assert damaged.status == "fail"
    assert "the engine file is truncated or has extra data" in damaged.reason
    monkeypatch.setenv("TENSORRT_ERA_FAULT", "wrong")
    wrong = check("tensorrt", "smoke", host_with(L4), python=sys.executable)["tensorrt.build"]
    assert wrong.status == "fail"
    assert "running the engine in a new process: the engine recognizes image 0 as" in wrong.reason


SEEN = Path(__file__).parent.parent / "fixtures" / "h100" / "trtexec-8.6.0"


def context_of(matrix: Matrix) -> Context:
    return Context(host=host_with(L4), matrix=matrix, runner=LocalRunner(), given={"python": sys.executable})


def test_bench_measures_each_engine_with_each_number_of_streams(
    matrix: Matrix, stands_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings(stands_in, "8.6.0").items():
        monkeypatch.setenv(name, value)
    kept: list[str] = []
    heard: list[tuple[str, str]] = []
    asked = Settings(
        batches=(1, 8),
        streams=(1, 2),
        precisions=("fp32", "bf16"),
        iterations=10,
        profile=kept.append,
        note=lambda event, identity: heard.append((event, identity)),
    )
    found = bench(context_of(matrix), asked)
    assert found.settings["tensorrt"] == "8.6.0 by Python's tensorrt"
    assert [(row["batch"], row["streams"], row["precision"]) for row in found.rows] == [
        (1, 1, "fp32"), (1, 2, "fp32"), (8, 1, "fp32"), (8, 2, "fp32"),
    ]  # fmt: skip
    for row in found.rows:
        figures = [row[f"host_{name}_ms"] for name in ("min", "median", "p90", "p95", "p99")]
        assert all(isinstance(one, float) for one in figures)
        assert figures == sorted(figures, key=float)  # type: ignore[arg-type]
        assert row["items_per_s"] == pytest.approx(float(row["runs_per_s"] or 0) * int(row["batch"] or 0), rel=1e-2)
    assert "bf16 was skipped: this builder does not support it" in found.notes
    assert heard == [(event, f"batch {batch}, fp32") for batch in (1, 8) for event in ("starts", "ends")]
    assert [one["batch"] for one in json.loads(kept[0])] == [1, 8]
    assert json.loads(kept[0])[0]["layers"][0]["averageMs"] == 0.5


def test_bench_tells_nothing_of_an_engine_whose_answers_are_wrong(
    matrix: Matrix, stands_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**settings(stands_in, "10.13.3.9"), "TENSORRT_ERA_FAULT": "wrong"}.items():
        monkeypatch.setenv(name, value)
    found = bench(context_of(matrix), Settings(batches=(1,), precisions=("fp32",), iterations=10))
    assert found.rows == ()
    assert "batch 1, fp32: not reported, as the outputs are wrong: the engine recognizes image 0 as" in found.notes[0]


REPLAY = """\
#!/bin/sh
profile= what=build
for word; do case $word in
--help) head -1 {seen}/build.out; exit ;;
--saveEngine=*) printf engine > "${{word#*=}}" ;;
--loadEngine=*) what=bench ;;
--exportProfile=*) cp {seen}/profile.json "${{word#*=}}" ;;
esac; done
cat {seen}/$what.out; cat {seen}/$what.err >&2
"""


TWO = """\
#!/bin/sh
for word; do case $word in
--help) head -1 {seen}/build.out; exit ;;
--saveEngine=*) cp {engine} "${{word#*=}}" ;;
--exportOutput=*) cp {output} "${{word#*=}}" ;;
esac; done
cat {seen}/build.out
"""


@pytest.mark.parametrize(
    ("spoil", "status", "told"),
    [
        (0, "pass", "every output correct; Python's tensorrt 8.6.0 loads it as well"),
        (
            1,
            "fail",
            "loading the engine of TMP/trtexec with Python's tensorrt 8.6.0: the engine file is truncated or has extra data",
        ),
    ],
)
def test_an_engine_of_trtexec_has_to_load_in_python_too(
    check: Check, stands_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: int, status: str, told: str
) -> None:
    """Two TensorRTs on one host are found out by an engine that goes from one to the other."""
    child = Child(tmp_path, stands_in, "8.6.0", batch=1)
    assert child.ask(do="build", onnx=str(child.model))["ok"]
    engine, output = tmp_path / "engine", tmp_path / "output.json"
    data = engine.read_bytes()
    engine.write_bytes(data[:60] + bytes([spoil]) + data[61:])
    output.write_text(json.dumps([{"name": OUTPUT, "values": child.digits.probabilities[0]}]))
    program = tmp_path / "trtexec"
    program.write_text(TWO.format(seen=SEEN, engine=engine, output=output))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name, value in settings(stands_in, "8.6.0").items():
        monkeypatch.setenv(name, value)
    found = check("tensorrt", "smoke", host_with(L4), python=sys.executable)["tensorrt.build"]
    assert found.status == status
    if status == "fail":
        assert found.reason.replace(str(tmp_path), "TMP") == told
    else:
        assert found.detail.endswith(told)


def test_bench_reads_what_a_real_trtexec_printed(
    matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that prints what trtexec of 8.6.0 printed on an H100, in place of it."""
    program = tmp_path / "trtexec"
    program.write_text(REPLAY.format(seen=SEEN))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    kept: list[str] = []
    found = bench(context_of(matrix), Settings(batches=(1,), streams=(2,), precisions=("fp32",), profile=kept.append))
    assert found.settings["tensorrt"] == f"8.6.0 by {program}"
    (row,) = found.rows
    assert {name: row[name] for name in ("build_s", "load_s", "host_median_ms", "host_p99_ms", "runs_per_s")} == {
        "build_s": 35.6991, "load_s": 0.0304675, "host_median_ms": 0.0622864, "host_p99_ms": 0.117004,
        "runs_per_s": 10643.6,
    }  # fmt: skip
    assert found.notes == ()  # enqueue 0.0515 ms is below compute 0.0533 ms
    assert json.loads(kept[0])[0]["layers"][0]["name"] == "c1"
