"""TensorRT: engine files judged, trtexec's words of every era, and TensorRT-RTX building engines for real."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.media.conftest import H200, L4, Check, Wheel, host_with

from gpustack.matrix.index import Matrix
from gpustack.triton.engine import engine_of, judge_engine, read_engine
from gpustack.triton.served import tensorrt_of_triton
from gpustack.verify.tensorrt import trtexec
from gpustack.verify.tensorrt.digits_engine import compare_outputs
from gpustack.verify.tensorrt.error_texts import explain_error
from gpustack.verify.tensorrt.libraries import search_libraries, version_text
from gpustack.verify.tensorrt.onnx import digits_model, load_digits
from gpustack.versions import version

RTX = "1.7.1.116"


def head(tag: bytes, number: str, size: int, bits: int = 0) -> bytes:
    """The first bytes of an engine file, as TensorRT 8.6 and TensorRT-RTX 1.7 were seen to write them."""
    return (
        tag
        + bytes(12)
        + size.to_bytes(8, "little")
        + bytes(int(one) for one in number.split("."))
        + bytes(4)
        + bits.to_bytes(8, "little")
    )


@pytest.fixture(scope="module")
def rtx(wheel: Wheel) -> str:
    """The folders of TensorRT-RTX as PYTHONPATH takes them."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert tag >= "cp310"
    return f"{wheel(f'tensorrt-rtx-cu13-bindings=={RTX}')}:{wheel(f'tensorrt-rtx-cu13-libs=={RTX}')}"


def test_engine_headers() -> None:
    plain = engine_of(head(b"ftrt", "8.6.0.12", 500), 500)
    assert (plain.kind, plain.version, plain.fault) == ("tensorrt", "8.6.0.12", "")
    rtx = engine_of(head(b"vtrt", "1.7.1.116", 500, 0b1010), 500)
    assert (rtx.called, rtx.targets) == ("engine of TensorRT-RTX 1.7.1.116", ("8.0", "8.9"))


@pytest.mark.parametrize(
    ("data", "size", "words"),
    [
        (b"", 0, "the file is empty"),
        (head(b"ftrt", "8.6.0.12", 500), 300, "truncated: it has 300 of 500 bytes"),
        (b"ftrt" + bytes(10), 14, "ends in its header"),
        (b"\x08\x07\x12\x08gpustack" + bytes(40), 52, "looks like an ONNX file"),
        (b"PK\x03\x04" + bytes(40), 44, "it is a zip archive"),
        (b"version https://git-lfs.github.com/spec/v1\n" + bytes(9), 52, "Git LFS pointer"),
        (bytes(64), 64, "the file is not a TensorRT engine"),
    ],
)
def test_files_that_are_no_whole_engine(data: bytes, size: int, words: str) -> None:
    assert words in engine_of(data, size).fault


@pytest.mark.parametrize(
    ("built", "library", "fits", "words"),
    [
        ("8.6.0.12", "8.6.0", True, ""),
        ("8.6.1.6", "8.6.0", False, "only if it was built version-compatible"),
        ("8.6.1.6", "10.3.0", False, "only if it was built version-compatible"),
        ("8.5.3.1", "10.3.0", False, "which cannot load it"),
        ("8.6.1.6", "11.0.0", False, "which cannot load it"),
        ("10.16.0.1", "11.2.0", False, "only if it was built version-compatible"),
        ("11.0.0.1", "10.16.0", False, "which cannot load it"),
    ],
)
def test_engines_and_libraries(built: str, library: str, fits: bool, words: str) -> None:
    verdict = judge_engine(engine_of(head(b"ftrt", built, 100), 100), library, "9.0", "this host")
    assert verdict.fits is fits
    assert words in verdict.reason
    assert fits or f"rebuild it with TensorRT {library} on this host" in verdict.fix


def test_an_rtx_engine_is_judged_by_the_gpu() -> None:
    engine = engine_of(head(b"vtrt", "1.7.1.116", 100, 0b0110), 100)
    assert judge_engine(engine, "1.7.1.116", "8.6", "here").fits
    wrong = judge_engine(engine, "1.7.1.116", "9.0", "here")
    assert wrong.reason == "it was built for compute capability 8.0, 8.6, but this GPU has 9.0"


def test_a_given_engine_is_judged_without_running_it(check: Check, tmp_path: Path, matrix: Matrix) -> None:
    engine = tmp_path / "model.plan"
    engine.write_bytes(head(b"ftrt", "8.6.1.6", 100) + bytes(60))
    release = next(
        row.version
        for row in matrix.releases("triton")
        if (tensorrt_of_triton(matrix, row.version) or "").startswith("8.5")
    )
    found = check("tensorrt", "quick", host_with(L4), engine=str(engine), release=release)["tensorrt.engine"]
    assert found.status == "fail"
    assert f"Triton {release} has 8.5" in found.reason
    unknown = check("tensorrt", "quick", host_with(L4), engine=str(engine), release="99.01")["tensorrt.engine"]
    assert (unknown.status, unknown.reason, unknown.fix) == (
        "skip",
        "the TensorRT version of Triton 99.01 is unknown",
        "run `dpkg --list 'libnvinfer*'` in its container; the file is an engine of TensorRT 8.6.1.6",
    )
    missing = check("tensorrt", "quick", host_with(L4), engine=str(tmp_path / "none"))["tensorrt.engine"]
    assert (missing.status, "No such file" in missing.reason) == ("fail", True)


PASSES = [
    ("&&&& PASSED TensorRT.trtexec # trtexec --onnx=m", "PASSED", ""),
    ("&&&& PASSED TensorRT.trtexec [TensorRT v8601] # trtexec --onnx=m", "PASSED", "8.6.1"),
    ("&&&& PASSED TensorRT.trtexec [TensorRT v100400] [b26] # trtexec --onnx=m", "PASSED", "10.4.0"),
    ("&&&& FAILED TensorRT.trtexec [TensorRT v110001] # trtexec", "FAILED", "11.0.1"),
    ("&&&& RUNNING TensorRT.trtexec [TensorRT v8601] # trtexec", "", "8.6.1"),
    ("[I] see &&&& PASSED TensorRT.trtexec # no line of its own", "", ""),
]


@pytest.mark.parametrize(("text", "state", "release"), PASSES)
def test_the_pass_line_of_every_era(text: str, state: str, release: str) -> None:
    said = trtexec.read(f"[11/21/2026-06:00:00] [I] first\n{text}\n")
    assert (said.state, said.version) == (state, release)


def test_what_trtexec_measures() -> None:
    said = trtexec.read(
        "[x] [I] Engine built in 7.1 sec.\n[x] [I] Engine deserialized in 0.02 sec.\n"
        "[x] [I] Throughput: 12345.6 qps\n"
        "[x] [I] Latency: min = 0.05 ms, max = 0.2 ms, mean = 0.06 ms, median = 0.055 ms, percentile(90%) = 0.07 ms,"
        " percentile(95%) = 0.08 ms, percentile(99%) = 0.1 ms\n"
        "[x] [I] GPU Compute Time: min = 0.01 ms, max = 0.02 ms, mean = 0.015 ms, median = 0.014 ms,"
        " percentile(99%) = 0.02 ms\n&&&& PASSED TensorRT.trtexec [TensorRT v8601] # t\n"
    )
    assert (said.has_passed, said.built_s, said.loaded_s, said.throughput) == (True, 7.1, 0.02, 12345.6)
    assert said.rows["Latency"] == {
        "min": 0.05,
        "max": 0.2,
        "mean": 0.06,
        "median": 0.055,
        "p90": 0.07,
        "p95": 0.08,
        "p99": 0.1,
    }
    assert said.rows["GPU Compute Time"]["p99"] == 0.02


class Era:
    """Which options trtexec of a release has, by the rows that add and remove them."""

    def __init__(self, matrix: Matrix, release: str) -> None:
        self.there: set[str] = set()
        self.idle: set[str] = set()
        for row in matrix.rows("tensorrt-tools", "trtexec_flags", dict):
            if version(str(row["era"])) <= version(release):
                self.there |= set(row.get("added", ()))
                self.there -= set(row.get("removed", ()))
                self.idle |= set(row.get("no_op_with_warning", ()))


@pytest.mark.parametrize("release", ["5.1", "6.0", "7.2", "8.2", "8.4", "8.5", "8.6", "10.0", "10.16", "11.1"])
def test_only_options_of_the_release_are_given_to_trtexec(matrix: Matrix, release: str) -> None:
    era = Era(matrix, release)
    words = (
        *trtexec.build_words("m", "e", release, "fp16"),
        *trtexec.bench_words("e", release, 2, profile="p"),
        *trtexec.bench_words("e", release, 2, timing=trtexec.Timing(with_graph=True), shapes="i:1"),
        *trtexec.bench_words("e", release, 2, timing=trtexec.Timing(with_graph=False)),
        *trtexec.run_words("e", release, inputs="i:f"),
    )
    given = {word.removeprefix("--").partition("=")[0] for word in words}
    assert given <= era.there, given - era.there
    assert not given & era.idle


def test_what_errors_mean() -> None:
    text = "The engine plan file is not compatible with this version of TensorRT, expecting library version 8.6.1.6 got 8.5.3.1, please rebuild."
    assert explain_error(text).cause == "the engine was built by TensorRT 8.5.3.1, but TensorRT 8.6.1.6 is installed"
    seen = (
        "IRuntime::deserializeCudaEngine: Error Code 6: API Usage Error (The engine cannot run on this GPU, which has"
        " compute capability 9.0. Supported compute capabilities: 8.0 8.6 8.9 12.0 12.1 >12.0. TensorRT-RTX does not"
    )
    refused = explain_error(seen)
    assert refused.refusal
    assert (
        "does not support this GPU: compute capability 9.0, supported are 8.0 8.6 8.9 12.0 12.1 >12.0" in refused.cause
    )
    assert (
        "driver is missing" in explain_error("Cuda Runtime (cudaError 35: CUDA driver version is insufficient)").cause
    )


def test_numbers_of_the_library() -> None:
    assert [version_text(one) for one in (8601, 8600, 101303, 110000)] == ["8.6.1", "8.6.0", "10.13.3", "11.0.0"]


def test_every_library_is_found_once(tmp_path: Path) -> None:
    lib = tmp_path / "usr/lib/x86_64-linux-gnu"
    lib.mkdir(parents=True)
    (lib / "libnvinfer.so.10.3.0").touch()
    (lib / "libnvinfer.so.10").symlink_to("libnvinfer.so.10.3.0")
    (lib / "libnvinfer_plugin.so.10").touch()
    packages = tmp_path / "site-packages"
    (packages / "tensorrt_libs").mkdir(parents=True)
    (packages / "tensorrt_libs" / "libnvinfer.so.8").touch()
    found = search_libraries("", [str(packages)], tmp_path)
    assert [(Path(one.path).name, one.major, one.from_wheel) for one in found] == [
        ("libnvinfer.so.10", 10, False),
        ("libnvinfer.so.8", 8, True),
    ]


def test_answers_are_compared_with_the_reference() -> None:
    digits = load_digits()
    right = [list(one) for one in digits.probabilities]
    assert compare_outputs(right, digits) == (0.0, "")
    wrong = [list(one) for one in digits.probabilities]
    wrong[3] = wrong[3][::-1]
    assert "recognizes image 3 as 6 instead of 3" in compare_outputs(wrong, digits)[1]
    assert "only 1 of 20 images" in compare_outputs(right[:1], digits)[1]
    assert compare_outputs([[float("nan")] * 10], digits)[1]


def test_rtx_builds_for_every_architecture_without_a_gpu(
    check: Check, rtx: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorRT-RTX itself: five targets, of which it refuses Turing for this network, and says why."""
    monkeypatch.setenv("PYTHONPATH", rtx)
    found = check("tensorrt", "smoke", host_with(), python=sys.executable)
    rtx_check = found["tensorrt.rtx"]
    assert rtx_check.status == "pass", rtx_check
    assert f"TensorRT-RTX {RTX} builds for compute capability 8.0, 8.6, 8.9, 12.0" in rtx_check.detail
    assert "cannot build this network for Turing (7.5): FP32 GEMM is not supported" in rtx_check.detail
    assert "not run, as no GPU was found" in rtx_check.detail
    assert int(rtx_check.measurements["8_9_engine"].value) > 100_000
    assert "libtensorrt_rtx.so.1" in found["tensorrt.found"].detail


def test_rtx_on_a_gpu_says_that_the_driver_is_missing(check: Check, rtx: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", rtx)
    found = check("tensorrt", "smoke", host_with(H200), python=sys.executable)["tensorrt.rtx"]
    assert "not run on H200: the driver's library libcuda.so.1 was not found" in found.detail


def test_a_real_rtx_engine_tells_its_target(
    check: Check, rtx: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", rtx)
    from gpustack.system.run import LocalRunner
    from gpustack.verify.tensorrt.libraries import CHILD

    model, engine, request = tmp_path / "d.onnx", tmp_path / "d.engine", tmp_path / "r.json"
    model.write_bytes(digits_model(load_digits().weights))
    told = {
        "do": "build",
        "module": "tensorrt_rtx_bindings",
        "onnx": str(model),
        "engine": str(engine),
        "targets": ["SM86", "SM120"],
    }
    request.write_text(json.dumps(told))
    end = LocalRunner().run((sys.executable, str(CHILD), str(request)), timeout=60)
    assert json.loads(end.out)["ok"], end.err
    assert read_engine(engine).targets == ("8.6", "12.0")
    judged = check("tensorrt", "quick", host_with(H200), engine=str(engine), python=sys.executable)["tensorrt.engine"]
    assert judged.status == "fail"
    assert "it was built for compute capability 8.6, 12.0, but this GPU has 9.0" in judged.reason
    cut = tmp_path / "cut.engine"
    cut.write_bytes(engine.read_bytes()[:5000])
    damaged = check("tensorrt", "quick", host_with(H200), engine=str(cut), python=sys.executable)["tensorrt.engine"]
    assert "the file is truncated: it has 5000 of" in damaged.reason


def test_what_was_seen_on_an_h200_is_kept() -> None:
    """Report of `verify tensorrt --level smoke` with TensorRT 8.6.0 on an H200, 2026-11-21."""
    folder = Path(__file__).parent.parent / "fixtures" / "h200"
    checks = {one["id"]: one for one in json.loads((folder / "tensorrt-8.6.0.json").read_text())["checks"]}
    assert checks["tensorrt.build"]["status"] == "pass"
    assert checks["tensorrt.build"]["detail"].endswith("run in a fresh process, every answer right")
    assert checks["tensorrt.build"]["measurements"]["largest_difference"]["value"] < 0.02


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("Assertion plan->header.magicTag == rt::kPLAN_MAGIC_TAG failed", "the file is not an engine, or is damaged"),
        ("Assertion plan->header.size == blobSize failed", "the engine file is truncated or has extra data"),
        ("kEND_OF_PLAN_MARKER failed", "the engine file is damaged at its end"),
        ("Cannot deserialize with an empty memory buffer", "the engine file is empty"),
        (
            "Version tag does not match. Note: Current Version: 236, Serialized Engine Version: 19",
            "the engine was built by another release of TensorRT, or is damaged: its serialization version is 19, and this TensorRT reads 236",
        ),
        ("cuInit: CUDA_ERROR_NO_DEVICE (100)", "no GPU is visible"),
        ("CUDA initialization failure with error: 100", "no GPU is visible"),
    ],
)
def test_what_tensorrt_8_6_said_on_an_h200_has_a_cause_and_a_cure(said: str, cause: str) -> None:
    found = explain_error(said)
    assert found.cause == cause
    assert found.fix
