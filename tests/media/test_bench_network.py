"""`bench tensorrt --onnx FILE` and `--engine FILE`, over the stand-ins of the bindings, of libcuda and of trtexec.

No figure here comes from a GPU: what is tested is the way from the file to the document, and every refusal on it.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.media.stubs import tensorrt_era
from tests.media.test_tensorrt_eras import ERAS, SEEN, context_of, settings, stands_in

from gpustack.errors import UnsupportedError, UsageError
from gpustack.matrix.index import Matrix
from gpustack.verify.frame.bench_compare import compare, read_bench
from gpustack.verify.frame.bench_table import Bench, as_text
from gpustack.verify.tensorrt import onnx, trtexec
from gpustack.verify.tensorrt.network import Asked, offered, parse_precisions, parse_shapes
from gpustack.verify.tensorrt.network_bench import bench_network
from gpustack.verify.tensorrt.onnx_inputs import read_network

__all__ = ["stands_in"]
CACHE = "TRT-8600-EntropyCalibration2\ninput: 3c010a14\n"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The digits network as a user would have it: its batch size open."""
    data = onnx.digits_model(onnx.load_digits().weights)
    path = tmp_path / "mine.onnx"
    path.write_bytes(data.replace(tensorrt_era._ONE_PICTURE, tensorrt_era.OPEN_BATCH, 1))
    return path


def fixed(folder: Path, batch: int = 8) -> Path:
    path = folder / "fixed.onnx"
    path.write_bytes(onnx.digits_model(onnx.load_digits().weights, batch))
    return path


def quick(**more: Any) -> Asked:
    return Asked(warm_up_ms=0, seconds=0, iterations=10, **more)


@pytest.fixture
def era(request: pytest.FixtureRequest, stands_in: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    release: str = getattr(request, "param", "8.6.0")
    for name, value in settings(stands_in, release).items():
        monkeypatch.setenv(name, value)
    return release


def test_an_onnx_file_tells_its_inputs(model: Path, tmp_path: Path) -> None:
    (one,) = read_network(model).inputs
    assert (one.name, one.shape) == ("input", (None, 1, 28, 28))
    assert read_network(fixed(tmp_path)).inputs[0].shape == (8, 1, 28, 28)
    assert not read_network(model).is_quantized


@pytest.mark.parametrize("era", ERAS, indirect=True)
def test_the_users_network_is_measured_with_every_era(matrix: Matrix, model: Path, era: str) -> None:
    asked = quick(
        onnx=model, batches=(1, 8), streams=(1, 3), precisions=("fp32", "fp16"), with_graphs=True, with_layers=True,
        limit_ms=1e6,
    )  # fmt: skip
    found = bench_network(context_of(matrix), asked)
    precisions = ["fp32", "fp16"] if "fp16" in offered(era) else ["fp32"]
    assert [(row["precision"], row["batch"], row["cuda_graph"], row["streams"]) for row in found.rows] == [
        (precision, batch, graph, streams)
        for precision in precisions
        for batch in (1, 8)
        for graph in ("off", "on")
        for streams in (1, 3)
    ]
    for row in found.rows:
        times = [row[f"host_{name}_ms"] for name in ("min", "median", "p90", "p95", "p99")]
        assert times == sorted(times, key=lambda one: float(one or 0))
        assert {row["sm_mhz_before"], row["sm_mhz_after"], row["memory_mhz_after"]} == {1500, 2600}
        assert (row["engine_bytes"], row["scratch_bytes"] in {4096, 8192}) == (100, True)
        assert float(row["device_bytes"] or 0) > 0
        assert all(isinstance(row[name], float) for name in ("h2d_ms", "d2h_ms", "gpu_compute_ms", "wall_p99_ms"))
        assert row["items_per_s"] == pytest.approx(float(row["runs_per_s"] or 0) * int(row["batch"] or 0), rel=1e-2)
    best = found.settings["throughput within 1e+06 ms"]
    assert f"{max(float(row['waiting_items_per_s'] or 0) for row in found.rows):.1f} items per second" in best
    count = 2 if "IPluginRegistry.all_creators" in tensorrt_era.LACKS[era] else 3
    told = {name: found.settings[name] for name in ("plugins", "dla", "refit")}
    assert told == {
        "plugins": f"{count} of TensorRT's own are available",
        "dla": "not available on this GPU",
        "refit": "not built into the engine",
    }
    assert {(one["batch"], one["name"], one["averageMs"]) for one in found.layers} == {
        (1, "look up", 0.5), (8, "look up", 0.5),
    }  # fmt: skip
    assert {name: found.settings[name] for name in ("latency", "waiting", "time")} == {
        "latency": "copy to the GPU, computation and copy back, pinned memory, while all streams run",
        "waiting": "each stream waits for its run before the next; wall_ms is what it waits",
        "time": "0 ms of warm-up, then at least 0 s and 10 runs",
    }
    assert ("fp16 was skipped" in " ".join(found.notes)) is (precisions == ["fp32"])
    again = msgspec.json.decode(msgspec.json.encode(found), type=Bench)
    assert "averageMs" in as_text(again)


def test_a_limit_that_no_row_meets_is_told(matrix: Matrix, model: Path, era: str) -> None:
    found = bench_network(context_of(matrix), quick(onnx=model, batches=(8,), precisions=("fp32",), limit_ms=1e-9))
    assert found.settings["throughput within 1e-09 ms"] == "none: no row's 99th percentile stays within it"
    assert era


@pytest.mark.parametrize("era", ["8.0.1", "8.6.0", "11.4.0.106"], indirect=True)
def test_an_engine_file_is_measured(matrix: Matrix, tmp_path: Path, era: str) -> None:
    """One with open batch size: built for 1 to 32, so 64 is refused before it runs."""
    engine = tmp_path / "mine.plan"
    numbers = bytes(int(one) for one in f"{era}.0".split(".")[:4])
    head = (b"ftrt" + bytes(12) + struct.pack("<Q", 100) + numbers).ljust(96, b"\0")
    engine.write_bytes(head + struct.pack("<I", 0))
    shapes = parse_shapes(["input:Nx1x28x28"])
    found = bench_network(context_of(matrix), quick(engine=engine, shapes=shapes, batches=(2, 16)))
    assert [(row["batch"], row["precision"], row["engine_bytes"]) for row in found.rows] == [
        (2, "built", 100), (16, "built", 100),
    ]  # fmt: skip
    assert "build_s" not in found.columns
    with pytest.raises(UsageError, match="64x1x28x28 is not from 1x1x28x28 to 32x1x28x28"):
        bench_network(context_of(matrix), quick(engine=engine, batches=(64,)))
    other = bytes((*numbers[:3], numbers[3] + 1))
    engine.write_bytes((head[:24] + other).ljust(96, b"\0") + struct.pack("<I", 0))
    with pytest.raises(UnsupportedError, match="the engine file is truncated or has extra data"):
        bench_network(context_of(matrix), quick(engine=engine))


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("vectors", "input input is vectorized: measure such an engine with trtexec"),
        ("on host", "input input holds a shape, not data: measure such an engine with trtexec"),
        ("crash run", "it crashed (signal 11, SIGSEGV)"),
        ("crash build", "it crashed (signal 11, SIGSEGV)"),
    ],
)
def test_what_cannot_be_run_is_refused(
    matrix: Matrix, model: Path, era: str, monkeypatch: pytest.MonkeyPatch, fault: str, told: str
) -> None:
    monkeypatch.setenv("TENSORRT_ERA_FAULT", fault)
    with pytest.raises(UnsupportedError) as raised:
        bench_network(context_of(matrix), quick(onnx=model, precisions=("fp32",)))
    assert raised.value.message == told
    assert raised.value.hint == "`gpustack verify tensorrt --level smoke` tries this TensorRT itself"
    assert era


def test_one_engine_that_fails_leaves_the_others(
    matrix: Matrix, model: Path, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORRT_ERA_FAULT", "full at 32")
    found = bench_network(context_of(matrix), quick(onnx=model, batches=(8, 32), precisions=("tf32",)))
    assert [row["batch"] for row in found.rows] == [8]
    assert found.notes == ("batch 32, tf32: the GPU's memory is full",)
    monkeypatch.setenv("TENSORRT_ERA_FAULT", "one context")
    found = bench_network(context_of(matrix), quick(onnx=model, streams=(1, 2), precisions=("tf32",)))
    assert [row["streams"] for row in found.rows] == [1]
    reason = "TensorRT made no execution context: the GPU's memory is full"
    assert found.notes == (f"only 1 of 2 streams are possible: {reason}",)
    monkeypatch.setenv("TENSORRT_ERA_FAULT", "whole numbers")
    found = bench_network(context_of(matrix), quick(onnx=model, precisions=("tf32",)))
    assert found.notes == ("inputs of whole numbers are zeros: times that depend on the data differ",)
    monkeypatch.setenv("TENSORRT_ERA_FAULT", "DLA")
    found = bench_network(context_of(matrix), quick(onnx=model, precisions=("tf32",)))
    assert found.settings["dla"] == "2 cores are available"
    assert found.settings["refit"] == "the engine can be refitted"
    monkeypatch.setenv("TENSORRT_ERA_FAULT", "overflow")
    monkeypatch.setenv("CUDA_STUB_NO_GRAPH", "1")
    found = bench_network(context_of(matrix), quick(onnx=model, with_graphs=True, precisions=("tf32",)))
    assert [row["cuda_graph"] for row in found.rows] == ["off"]
    assert found.notes[0].startswith("no CUDA graph could be made: cuStreamEndCapture")
    assert found.notes[1] == "10 values of the outputs are not finite: with such inputs this precision overflows"
    assert era


def test_int8_takes_its_scales_from_a_cache_or_from_ranges(
    matrix: Matrix, model: Path, tmp_path: Path, era: str
) -> None:
    scales = tmp_path / "scales"
    for text in (CACHE, CACHE.replace("Entropy", "MinMax").replace("n2", "n"), '{"input": 1.0, "probabilities": 1}'):
        scales.write_text(text)
        asked = quick(onnx=model, calibration=scales, precisions=("int8",))
        (row,) = bench_network(context_of(matrix), asked).rows
        assert row["precision"] == "int8"
    scales.write_text('{"inputs": 1.0}')
    with pytest.raises(UsageError, match="the network has no tensor called 'inputs'") as raised:
        bench_network(context_of(matrix), asked)
    assert (raised.value.where, raised.value.hint) == ("--calibration", "correct it as the message says")
    for text in ("TRT-8600-Nothing\n", "", "{}", '{"input": -1}', '{"input": "a"}', "{"):
        scales.write_text(text)
        with pytest.raises(UsageError, match=r"neither a calibration cache nor|is not a calibration") as raised:
            bench_network(context_of(matrix), asked)
        assert raised.value.hint == (
            'give a cache that TensorRT wrote (its first line is like TRT-8601-EntropyCalibration2), or {"tensor": 2.5}'
        )
    for precision in ("int8", "fp8"):
        with pytest.raises(UsageError, match=f"{precision} requires scales"):
            bench_network(context_of(matrix), quick(onnx=model, precisions=(precision,)))
    assert era


@pytest.mark.parametrize("era", ["11.4.0.106"], indirect=True)
def test_a_precision_that_the_release_has_not_is_refused(matrix: Matrix, model: Path, era: str) -> None:
    with pytest.raises(UnsupportedError, match=f"bf16 was skipped: TensorRT {era} cannot be set to it") as raised:
        bench_network(context_of(matrix), quick(onnx=model, precisions=("bf16",)))
    assert raised.value.hint == "choose another --precision"


def test_precisions_by_release() -> None:
    assert offered("8.0.1") == ("fp32", "tf32", "fp16", "int8")
    assert offered("8.6.0") == ("fp32", "tf32", "fp16", "int8", "fp8")
    assert offered("10.13.3") == ("fp32", "tf32", "fp16", "bf16", "int8", "fp8")
    assert offered("11.4.0") == offered("1.7.1", is_rtx=True) == ("fp32", "tf32")
    with pytest.raises(UsageError, match="unknown precision 'fp4'"):
        parse_precisions("fp16,fp4")


def test_measurements_are_compared(matrix: Matrix, model: Path, tmp_path: Path, era: str) -> None:
    found = bench_network(context_of(matrix), quick(onnx=model, batches=(1, 8), precisions=("fp32",)))
    half = [{**row, "runs_per_s": float(row["runs_per_s"] or 0) / 2, "gpu_compute_ms": None} for row in found.rows[:1]]
    old = msgspec.structs.replace(found, rows=(*half, {**found.rows[1], "batch": 64}), settings={"gpu": "T4"})
    path = tmp_path / "old.json"
    path.write_bytes(msgspec.json.encode(old))
    both = compare(read_bench(path, "tensorrt"), found)
    assert [(one["batch"], one["runs_per_s change"], one["gpu_compute_ms change"]) for one in both.changes] == [
        (1, "+100.0 %", None)
    ]
    assert "gpu differs: T4 before, L4 (0000:01:00.0) now" in both.notes
    assert "1 rows of the earlier measurement have none to compare with" in both.notes
    assert "+100.0 %" in as_text(both)
    nothing = compare(msgspec.structs.replace(found, rows=()), found)
    assert (nothing.changes, nothing.notes) == ((), ("no row has its like in the earlier measurement",))
    for text, told in (
        ("{}", "not a document of bench"),
        ('{"subject": "gpu"}', "a measurement of gpu"),
        ("[", "not a"),
    ):
        path.write_text(text)
        with pytest.raises(UsageError, match=told):
            read_bench(path, "tensorrt")
    with pytest.raises(UsageError, match="cannot be read") as raised:
        read_bench(tmp_path / "none.json", "tensorrt")
    assert raised.value.hint == "give what `gpustack bench tensorrt --format json` printed"
    assert era


REPLAY = """\
#!/bin/sh
what=build
for word; do
printf '%s\\n' "$word" >> {log}
case $word in
--help) head -1 {seen}/build.out; exit ;;
--saveEngine=*) printf engine > "${{word#*=}}" ;;
--loadEngine=*) what=bench ;;
--exportProfile=*) cp {seen}/profile.json "${{word#*=}}" ;;
esac; done
cat {seen}/$what.out; cat {seen}/$what.err >&2
"""


def test_trtexec_measures_where_python_has_no_tensorrt(
    matrix: Matrix, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that keeps its words and prints what trtexec of 8.6.0 printed on an H100."""
    log, program, scales = tmp_path / "log", tmp_path / "trtexec", tmp_path / "scales"
    program.write_text(REPLAY.format(seen=SEEN, log=log))
    program.chmod(0o755)
    scales.write_text(CACHE)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    asked = quick(
        onnx=model, batches=(4,), streams=(2,), precisions=("fp32", "int8", "bf16"), calibration=scales,
        with_graphs=True, with_layers=True, limit_ms=1,
    )  # fmt: skip
    found = bench_network(context_of(matrix), asked)
    assert [(row["precision"], row["cuda_graph"], row["host_p99_ms"]) for row in found.rows] == [
        (precision, graph, 0.117004) for precision in ("fp32", "int8") for graph in ("off", "on")
    ]
    assert found.rows[0]["items_per_s"] == 4 * 10643.6
    assert found.settings["throughput within 1 ms"].startswith("42574.4 items per second (p99 0.117 ms) with batch 4")
    assert found.notes == ("bf16 was skipped: TensorRT 8.6.0 cannot be set to it",)
    assert found.layers[0]["name"] == "c1"
    assert found.settings["plugins, dla, refit"] == "not told by trtexec"
    assert found.settings["device memory, clocks"] == "not told by trtexec; Python's tensorrt measures them"
    words = log.read_text().splitlines()
    for form in ("min", "opt", "max"):
        assert words.count(f"--{form}Shapes=input:4x1x28x28") == 2
    assert (words.count("--noTF32"), words.count("--int8"), words.count(f"--calib={scales}")) == (1, 1, 1)
    assert (words.count("--useCudaGraph"), words.count("--warmUp=0"), words.count("--infStreams=2")) == (2, 4, 4)
    assert "--shapes=input:4x1x28x28" in words
    scales.write_text('{"input": 1}')
    with pytest.raises(UnsupportedError, match="trtexec takes a calibration cache, not ranges"):
        bench_network(context_of(matrix), msgspec.structs.replace(asked, precisions=("int8",)))


def test_trtexec_of_11_uses_graphs_unless_told_otherwise() -> None:
    for release, off, on in (("10.0", (), ("--useCudaGraph",)), ("11.1", ("--noCudaGraph",), ())):
        for with_graph, wanted in ((False, off), (True, on), (None, ())):
            words = trtexec.bench_words("e", release, 1, timing=trtexec.Timing(with_graph=with_graph))
            assert tuple(word for word in words if "CudaGraph" in word) == wanted


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("input:1x3", "1x3 does not fit the network's input:?x1x28x28"),
        ("input:1x3x28x28", "1x3x28x28 does not fit the network's input:?x1x28x28"),
        ("other:1x1x28x28", "the network has no input 'other'"),
        ("input:1xax28x28", "is not a shape"),
        ("input:0x1x28x28", "is not a shape"),
        ("1x1x28x28", "is not a shape"),
        ("input:", "is not a shape"),
    ],
)
def test_a_shape_that_does_not_fit_is_exit_2(model: Path, text: str, told: str) -> None:
    """On any host: the file is read before a GPU is looked for."""
    ended = gpustack("--onnx", str(model), "--shapes", text)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr


def gpustack(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpustack", "bench", "tensorrt", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--onnx", "DIR/cut.onnx"), 2, "is not an ONNX model, or is damaged"),
        (("--onnx", "DIR/empty"), 2, "is not an ONNX model, or is damaged"),
        (("--onnx", "DIR/none"), 2, "cannot be read: No such file or directory"),
        (("--onnx", "DIR"), 2, "cannot be read: Is a directory"),
        (("--onnx", "DIR/mine.plan"), 2, "give it with --engine"),
        (("--engine", "DIR/fixed.onnx"), 2, "the file is not a TensorRT engine; it looks like an ONNX file"),
        (("--engine", "DIR/none"), 2, "cannot be read"),
        (("--engine", "DIR/mine.plan", "--precision", "fp16"), 2, "so --precision cannot change it"),
        (("--onnx", "a", "--engine", "b"), 2, "--onnx and --engine are both given"),
        (("--cuda-graph",), 2, "--cuda-graph requires --onnx or --engine"),
        (("--calibration", "c"), 2, "--calibration requires --onnx or --engine"),
        (("--batch", ""), 2, "'' is not a list of numbers"),
        (("--shapes", "a:1"), 2, "--shapes requires --onnx or --engine"),
        (("--latency-limit", "2"), 2, "--latency-limit requires --onnx or --engine"),
        (("--onnx", "DIR/fixed.onnx", "--batch", "1"), 2, "no input leaves its batch size open"),
        (("--onnx", "DIR/fixed.onnx", "--precision", "fp4"), 2, "unknown precision 'fp4'"),
        (("--onnx", "DIR/fixed.onnx", "--precision", "int8"), 2, "int8 requires scales"),
        (("--onnx", "DIR/fixed.onnx", "--compare", "DIR/none"), 2, "cannot be read"),
        (("--onnx", "DIR/fixed.onnx"), 4, "no NVIDIA GPU was found"),
    ],
)
def test_what_is_wrong_with_a_command_line_is_told(
    tmp_path: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    data = fixed(tmp_path).read_bytes()
    (tmp_path / "cut.onnx").write_bytes(data[:-40])
    (tmp_path / "empty").touch()
    (tmp_path / "mine.plan").write_bytes((b"ftrt" + bytes(12) + struct.pack("<Q", 100)).ljust(100, b"\0"))
    ended = gpustack(*(word.replace("DIR", str(tmp_path)) for word in words))
    assert (ended.returncode, ended.stdout) == (code, ""), ended.stderr
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr


def test_every_piece_of_an_onnx_file_is_a_model_or_is_refused(tmp_path: Path) -> None:
    data = fixed(tmp_path, 1).read_bytes()
    path = tmp_path / "piece.onnx"
    for end in (*range(0, 400, 7), *range(len(data) - 300, len(data), 11)):
        path.write_bytes(data[:end])
        with pytest.raises(ValueError, match="not an ONNX model, or is damaged"):
            read_network(path)


def test_a_host_without_tensorrt_is_told(matrix: Matrix, model: Path) -> None:
    with pytest.raises(UnsupportedError, match="no TensorRT that runs engines was found"):
        bench_network(context_of(matrix), quick(onnx=model))
