"""trtexec of every era: what a real one printed on an H100, and the tables that older ones print."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.media.conftest import H200, Check, host_with

from gpustack.system.run import Finished
from gpustack.verify.tensorrt import trtexec
from gpustack.verify.tensorrt.bench import COLUMNS
from gpustack.verify.tensorrt.digits_engine import trtexec_fault
from gpustack.verify.tensorrt.error_texts import explain_error

SEEN = Path(__file__).parent.parent / "fixtures" / "h100"
"""One H100, 2026-11-21: trtexec of 8.6.0, built from NVIDIA's sources, over the wheel's libraries."""


def said(name: str, code: int = 0) -> tuple[trtexec.Said, Finished]:
    out, err = ((SEEN / "trtexec-8.6.0" / f"{name}.{kind}").read_text() for kind in ("out", "err"))
    return trtexec.read(out + err), Finished(argv=("trtexec",), code=code, out=out, err=err)


def test_a_real_build_and_run() -> None:
    built, end = said("build")
    assert (built.has_passed, built.version, built.built_s, built.errors) == (True, "8.6.0", 35.6991, ())
    assert trtexec_fault(end, built) == ""
    ran, _ = said("run")
    assert (ran.has_passed, ran.loaded_s is not None) == (True, True)
    values = trtexec.outputs(SEEN / "trtexec-8.6.0" / "output.json")["probabilities"]
    assert len(values) == 10
    assert abs(sum(values) - 1) < 1e-4


def test_a_real_measurement_and_its_files() -> None:
    told, _ = said("bench")
    assert told.throughput == 10643.6
    assert set(told.rows) == {"Latency", "Enqueue Time", "H2D Latency", "GPU Compute Time", "D2H Latency"}
    assert told.rows["Latency"] == {
        "min": 0.0497437, "max": 0.117004, "mean": 0.0630144, "median": 0.0622864, "p50": 0.0622864, "p90": 0.072998,
        "p95": 0.0792694, "p99": 0.117004,
    }  # fmt: skip
    # "Engine loaded in 0.00084138 sec." stands before it, and is the reading of the file.
    assert told.loaded_s == 0.0304675
    rows = trtexec.layers(SEEN / "trtexec-8.6.0" / "profile.json")
    assert [row["name"] for row in rows if row["timeMs"]][:3] == ["c1", "p1", "PWN(r1)"]
    assert sum(row["percentage"] for row in rows) == pytest.approx(100, abs=0.1)


@pytest.mark.parametrize(
    ("name", "code", "state", "cause"),
    [
        ("cut", 1, "FAILED", "the engine file is truncated or has extra data"),
        ("text", 1, "FAILED", "the file is not an engine, or is damaged"),
        ("textonnx", 1, "FAILED", "the file is not an ONNX model, or is damaged"),
        ("missing", 1, "FAILED", "the engine file does not exist or cannot be read"),
        ("hidden", -6, "", "no GPU is visible"),
        ("vc", 1, "FAILED", "TensorRT's lean runtime libnvinfer_lean, which"),
        ("option", 1, "FAILED", "trtexec FAILED: Unknown option: --noSuchOption"),
    ],
)
def test_every_failure_that_was_seen_is_told(name: str, code: int, state: str, cause: str) -> None:
    told, end = said(name, code)
    assert (told.state, told.has_passed) == (state, False)
    assert cause in explain_error(trtexec_fault(end, told)).cause


def test_a_trtexec_that_dies_without_a_word_is_told_by_its_signal() -> None:
    end = Finished(argv=("trtexec",), code=-11, out="&&&& RUNNING TensorRT.trtexec [TensorRT v8600] # t\n", err="")
    fault = trtexec_fault(end, trtexec.read(end.out))
    assert fault == "trtexec stopped without a result: it crashed (signal 11, SIGSEGV)"


OLD = """\
[05/15/2020-08:36:22] [I] Host Latency
[05/15/2020-08:36:22] [I] min: 3.65 ms (end to end 3.9 ms)
[05/15/2020-08:36:22] [I] max: 4.5 ms (end to end 4.75 ms)
[05/15/2020-08:36:22] [I] mean: 3.75 ms (end to end 4 ms)
[05/15/2020-08:36:22] [I] median: 3.7 ms (end to end 3.95 ms)
[05/15/2020-08:36:22] [I] percentile: 4.25 ms at 99% (end to end 4.5 ms at 99%)
[05/15/2020-08:36:22] [I] throughput: 1.25e+06 qps
[05/15/2020-08:36:22] [I] walltime: 3.01 s
[05/15/2020-08:36:22] [I] Enqueue Time
[05/15/2020-08:36:22] [I] min: 0.5 ms
[05/15/2020-08:36:22] [I] max: 0.75 ms
[05/15/2020-08:36:22] [I] median: 0.6 ms
[05/15/2020-08:36:22] [I] GPU Compute
[05/15/2020-08:36:22] [I] min: 3.5 ms
[05/15/2020-08:36:22] [I] max: 4.25 ms
[05/15/2020-08:36:22] [I] mean: 3.6 ms
[05/15/2020-08:36:22] [I] median: 3.55 ms
[05/15/2020-08:36:22] [I] percentile: 4 ms at 99%
[05/15/2020-08:36:22] [I] total compute time: 2.9 s
&&&& PASSED TensorRT.trtexec # trtexec --loadEngine=e
"""
"""Written after printEpilog of 7.2: such a trtexec is not to be had without its TensorRT."""


@pytest.mark.parametrize("text", [OLD, OLD.replace("[05/15/2020-08:36:22] [I] ", "").replace("Host L", "Host l")])
def test_figures_of_7_one_a_line(text: str) -> None:
    told = trtexec.read(text)
    assert (told.has_passed, told.throughput) == (True, 1.25e6)
    assert told.rows == {
        "Latency": {"min": 3.65, "max": 4.5, "mean": 3.75, "median": 3.7, "p99": 4.25},
        "Enqueue Time": {"min": 0.5, "max": 0.75, "median": 0.6},
        "GPU Compute Time": {"min": 3.5, "max": 4.25, "mean": 3.6, "median": 3.55, "p99": 4.0},
    }


def test_the_one_figure_of_5_1() -> None:
    line = "[I] Average over 10 runs is 0.25 ms (host walltime is 0.3 ms, 99% percentile time is 0.4)."
    assert trtexec.read(line).rows == {"GPU Compute Time": {"mean": 0.25}}


def test_the_host_latency_end_to_end_of_8_0_is_another_figure() -> None:
    row = "min = 1 ms, max = 2 ms, mean = 1.5 ms, median = 1.5 ms, percentile(99%) = 2 ms"
    other = "min = 7 ms, max = 8 ms, mean = 7.5 ms, median = 7.5 ms, percentile(99%) = 8 ms"
    told = trtexec.read(f"[d] [I] Latency: {row}\n[d] [I] End-to-End Host Latency: {other}\n")
    assert told.rows["Latency"]["min"] == 1


def test_outputs_are_asked_for_where_there_are_some() -> None:
    assert not {"--loadInputs=i", "--exportOutput=o"} & set(trtexec.run_words("e", "6.0.1", inputs="i", output="o"))
    assert {"--loadInputs=i", "--exportOutput=o"} < set(trtexec.run_words("e", "7.0.0", inputs="i", output="o"))


STANDS_IN = """\
#!/bin/sh
for word; do case $word in --saveEngine=*) cp {head} "${{word#*=}}" ;; esac; done
echo '&&&& RUNNING TensorRT.trtexec{tag} # trtexec'
echo '&&&& PASSED TensorRT.trtexec{tag} # trtexec'
"""


@pytest.mark.parametrize(
    ("tag", "status", "told"),
    [
        ("", "skip", "could not be determined"),
        (" [TensorRT v8600]", "fail", "trtexec passed, but output.json cannot be read: No such file or directory"),
    ],
)
def test_a_trtexec_is_asked_for_its_version_and_believed_by_its_files(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: str, status: str, told: str
) -> None:
    """A stand-in that only prints trtexec's lines: the real one needs a GPU."""
    head = tmp_path / "head"
    head.write_bytes((b"ftrt" + bytes(12) + (100).to_bytes(8, "little") + bytes([8, 6, 0, 12])).ljust(100, b"\0"))
    program = tmp_path / "trtexec"
    program.write_text(STANDS_IN.format(head=head, tag=tag))
    program.chmod(0o755)
    library = tmp_path / "libnvinfer.so.8"
    library.touch()
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    found = check("tensorrt", "smoke", host_with(H200))["tensorrt.build"]
    assert (found.status, told in found.reason) == (status, True), found


def test_what_verify_said_on_an_h100() -> None:
    runs = json.loads((SEEN / "tensorrt-8.6.0.json").read_text())["runs"]
    by_id = {name: {one["id"]: one for one in rows} for name, rows in runs.items()}
    for name, maker in (("python", "Python's tensorrt 8.6.0"), ("trtexec", "/opt/tensorrt/bin/trtexec 8.6.0")):
        built = by_id[name]["tensorrt.build"]
        assert built["status"] == "pass"
        assert built["detail"].startswith(f"{maker}: engine of TensorRT 8.6.0.12")
        assert "run in a fresh process, every answer right" in built["detail"]
        assert built["measurements"]["largest_difference"]["value"] < 0.02
    assert by_id["engine"]["tensorrt.engine"]["detail"].endswith("fits this host")
    assert by_id["engine"]["tensorrt.load"]["detail"].endswith("loads with Python's tensorrt 8.6.0; it was not run")
    assert (
        "TensorRT-RTX does not know this GPU: it has compute capability 9.0" in by_id["rtx"]["tensorrt.rtx"]["detail"]
    )


def test_both_ways_of_measuring_agree() -> None:
    """`bench tensorrt` on one H100: engines differ from build to build, so the figures do by some ten percent."""
    read = {
        name: json.loads((SEEN / f"bench-tensorrt-{name}.json").read_text(encoding="utf-8"))
        for name in ("python", "trtexec")
    }
    rows = {name: {(row["batch"], row["streams"]): row for row in document["rows"]} for name, document in read.items()}
    assert sorted(rows["python"]) == [(batch, streams) for batch in (1, 8, 32, 64, 128) for streams in (1, 2, 4)]
    assert tuple(read["python"]["columns"]) == COLUMNS
    for key, one in rows["trtexec"].items():
        other = rows["python"][key]
        assert 0.7 < one["runs_per_s"] / other["runs_per_s"] < 1.4, key
        assert 0.6 < one["host_median_ms"] / other["host_median_ms"] < 1.6, key
        assert 0.6 < one["gpu_compute_ms"] / other["gpu_compute_ms"] < 1.6, key
    for row in rows["python"].values():
        assert row["host_min_ms"] <= row["host_median_ms"] <= row["host_p90_ms"] <= row["host_p99_ms"]
        assert row["items_per_s"] == pytest.approx(row["runs_per_s"] * row["batch"], rel=1e-3)
    layers = json.loads((SEEN / "bench-tensorrt-layers.json").read_text())
    assert [one["batch"] for one in layers] == [1, 8, 32, 64, 128]
