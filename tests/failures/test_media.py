"""What is said of FFmpegs, TensorRTs and Tritons that are here but do not do what they should.

Scripts stand for the programs. What real ones do is tested in ``tests/media``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.failures.conftest import Ask, Compare, Scripted, says, told
from tests.failures.test_hosts import CUVID, H200, NVENC, SOFTWARE, changed, ffmpeg
from tests.failures.test_triton import WELL, serving, without_ports
from tests.media.conftest import L4
from tests.media.v1server import serving as serving_v1
from tests.unit.verify.conftest import HEALTHY

from gpustack.matrix.index import Matrix
from gpustack.model.host import Gpu
from gpustack.model.results import CheckResult
from gpustack.system.run import Finished
from gpustack.verify import declare
from gpustack.verify.declare import Context
from gpustack.verify.ffmpeg.lists import About
from gpustack.verify.ffmpeg.programs import Location, Program
from gpustack.verify.ffmpeg.setup import failure
from gpustack.verify.tensorrt.digits_engine import compare_outputs
from gpustack.verify.tensorrt.libraries import Binding, Library, failure_reason
from gpustack.verify.tensorrt.onnx import load_digits
from gpustack.verify.triton.infer import Sample, check_output
from gpustack.verify.triton.own_server import ServerProgram, find_free_ports, start_server

CONSUMER = {"name": "GeForce RTX 3080", "pci_id": "10de:2206", "compute_capability": "8.6", "nvenc": 1, "nvdec": 1}


def test_ffmpegs(ask: Ask, compare: Compare, tmp_path: Path) -> None:
    sessions = {"nvidia-smi --query-gpu=encoder": says("500\n")}
    consumer = changed(gpu=CONSUMER)
    cases: dict[str, tuple[str, dict[str, Any], Any, dict[str, Finished]]] = {
        "session limit": ("ffmpeg.sessions", {"encoders": NVENC}, consumer, sessions),
        "no encoder for the chip": ("ffmpeg.nvenc", {"decoders": CUVID}, consumer, {}),
        "software cannot decode": ("ffmpeg.nvdec", {"decoders": CUVID, "accelerations": "cuda"}, HEALTHY, {}),
        "guide, no filters": ("ffmpeg.guide-scale-npp", {"encoders": NVENC, "decoders": CUVID}, HEALTHY, {}),
        "guide, chip without encoder": ("ffmpeg.guide-encode", {"encoders": NVENC}, changed(gpu=H200), {}),
        **{
            f"guide, nothing made with {key}": (
                f"ffmpeg.guide-{key}",
                {"encoders": NVENC + SOFTWARE, "decoders": CUVID, "accelerations": "cuda"},
                HEALTHY,
                {},
            )
            for key in ("encode", "lookahead", "spatial-aq", "temporal-aq")
        },
        "guide, no input": (
            "ffmpeg.guide-encode",
            {"encoders": NVENC + SOFTWARE, "decoders": CUVID, "accelerations": "cuda", "otherwise": 1},
            HEALTHY,
            {},
        ),
        "guide, no input and no encoder": (
            "ffmpeg.guide-transcode-1to1",
            {"encoders": NVENC, "decoders": CUVID, "accelerations": "cuda", "otherwise": 1},
            HEALTHY,
            {},
        ),
    }
    texts: dict[str, str] = {}
    for number, (name, (identity, parts, host, answers)) in enumerate(cases.items()):
        path = ffmpeg(tmp_path, f"ffmpeg-{number}", **parts)
        result = ask(identity, host, on=Scripted(answers, real=tmp_path), given={"ffmpeg": path})
        texts |= told(f"{name}, {identity}", result)
    compare("ffmpegs-in-trouble", texts)


def test_no_ffmpeg_and_a_saved_one(facts: Matrix, compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    """A saved host tells that it has one, but nothing can ask it; a host may have none at all."""
    monkeypatch.setenv("PATH", "/nonexistent")
    texts: dict[str, str] = {}
    saved = changed(versions={"ffmpeg": "7.1"})
    for name, host, on in (("saved", saved, None), ("saved without", HEALTHY, None), ("none", HEALTHY, Scripted())):
        context = Context(host=host, matrix=facts, runner=on, asked=frozenset({"ffmpeg"}))
        context.shared.once("ffmpeg programs", tuple)
        for one in declare.checks_of("ffmpeg", "smoke"):
            outcome = one.function(context)
            if outcome.status != "pass":
                texts |= {f"{name}, {one.id} {outcome.status}": outcome.reason, f"{name}, {one.id} fix": outcome.fix}
    without = msgspec.structs.replace(HEALTHY, gpus=())
    idle = next(one for one in declare.checks_of("ffmpeg") if one.id == "ffmpeg.compiled")
    outcome = idle.function(Context(host=without, matrix=facts, runner=Scripted()))
    texts |= {"no GPU": outcome.reason, "no GPU fix": outcome.fix}
    compare("ffmpeg-absent", texts)


def test_an_ffmpeg_that_hangs_is_told(facts: Matrix, compare: Compare) -> None:
    context = Context(host=HEALTHY, matrix=facts, runner=Scripted())
    program = Program(place=Location(path="/usr/bin/ffmpeg", origin="distribution"))
    late = Finished(argv=("ffmpeg",), code=None, error="no answer within 120 s")
    outcome = failure(context, program, late, "encoding with h264_nvenc")
    compare("ffmpeg-hangs", {"fail": outcome.reason, "fix": outcome.fix})


LIBRARY = Library(path="/usr/lib/x86_64-linux-gnu/libnvinfer.so.10", name="libnvinfer", major=10)
PYTHON = Binding(python="python3", module="tensorrt", version="8.6.1", libraries=("/usr/lib/python3/libnvinfer.so.8",))
BROKEN = Binding(
    python="python3", module="tensorrt", error="ImportError: libnvinfer.so.10: cannot open shared object file"
)
LOADED = says(json.dumps({"number": 101303, "libraries": ["/usr/lib/x86_64-linux-gnu/libnvinfer.so.10"]}) + "\n")


def test_tensorrts(ask: Ask, compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    loads = Scripted({"python3": LOADED, "bash": LOADED})
    silent = Scripted()

    def one(identity: str, runner: Scripted, libraries: tuple[Library, ...], *modules: Binding) -> CheckResult:
        known = {"tensorrt libraries": libraries, "tensorrt bindings": modules}
        return ask(identity, HEALTHY, on=runner, known=known)

    texts = {
        **told("module broken", one("tensorrt.found", silent, (LIBRARY,), BROKEN)),
        **told("two releases", one("tensorrt.versions", loads, (LIBRARY,), PYTHON)),
        **told("library only", one("tensorrt.build", silent, (LIBRARY,))),
    }
    detail = one("tensorrt.found", silent, (LIBRARY,)).detail
    texts["not on the loader's path"] = detail
    texts["loaded"] = one("tensorrt.found", loads, (LIBRARY,)).detail
    compare("tensorrts", texts)


def test_answers_of_tensorrt(compare: Compare) -> None:
    digits = load_digits()
    right = [list(one) for one in digits.probabilities]
    other = [right[1], *right[1:]]
    texts = {
        "a crash": failure_reason(Finished(argv=("x",), code=-11)),
        "no words": failure_reason(Finished(argv=("x",), code=3)),
        "too few values": compare_outputs([right[0][:3]], digits)[1],
        "wrong values": compare_outputs(other, digits)[1],
        "too few pictures": compare_outputs(right[:2], digits)[1],
    }
    compare("tensorrt-answers", texts)


def test_servers_of_the_first_protocol(ask: Ask, compare: Compare) -> None:
    texts: dict[str, str] = {}

    def one(name: str, identity: str, url: str, **given: str) -> None:
        nonlocal texts
        texts |= told(f"{name}, {identity}", ask(identity, HEALTHY, given={"url": url, **given}))

    with serving_v1() as (url, behaviour):
        behaviour.counts = (0, 1)
        one("nothing counted", "triton.statistics", url)
        one("statistics of an unknown model", "triton.statistics", url, model="resnet")
        behaviour.described = "other"
        one("another model answers", "triton.infer", url)
        behaviour.described, behaviour.best = "gpustack_digits", 1
        one("another class", "triton.infer", url)
        behaviour.best, behaviour.has_classes = 0, False
        one("no classes", "triton.infer", url)
        behaviour.has_classes, behaviour.grpc_state = True, "MODEL_LOADING"
        one("not ready over gRPC", "triton.infer", url)
        behaviour.grpc_state, behaviour.state = "MODEL_READY", "MODEL_LOADING"
        one("another status over gRPC", "triton.infer", url, model="gpustack_digits")
        behaviour.state = "MODEL_READY"
        behaviour.reason = "no GPU of its compute capability"
        for call in ("Health", "Status", "Infer"):
            behaviour.grpc_denies = call
            one(f"{call} refused", "triton.infer", url)
        behaviour.grpc_denies = ""
        one("unknown model", "triton.model", url, model="resnet")
        behaviour.state = "MODEL_UNAVAILABLE"
        one("unloaded", "triton.model", url, model="gpustack_digits")
        behaviour.state = ""
        one("none loaded", "triton.model", url, model="gpustack_digits")
        behaviour.state = "MODEL_READY"
        one("another model", "triton.infer", url, model="resnet")
        behaviour.is_loaded_by_number = False
        one("not by its number", "triton.infer", url)
        behaviour.answer = [0.5]
        one("short answer", "triton.infer", url)
        behaviour.is_ready = False
        one("not ready", "triton.ready", url)
        behaviour.is_live = False
        one("not live", "triton.live", url)
        one("not live, 18.09", "triton.live", url, release="18.09")
    with serving(WELL) as url:
        one("another server is asked", "triton.own-server", url)
    compare("triton-v1", without_ports(texts))


def test_answers_whose_truth_is_not_known(compare: Compare) -> None:
    ask = Sample(tensor=("x", "FP32", (1, 4)), values=[0.0] * 4, output="y")
    compare("triton-unknown", {"said": check_output([1.0, 2.0], ask, 0.0, "HTTP").said})


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_server_of_this_host_that_does_not_come_up(ask: Ask, compare: Compare, tmp_path: Path) -> None:
    """Scripts stand for servers that end before they are ready."""
    failing = script(
        tmp_path / "a/bin/tritonserver",
        'echo "I0101 main.cc:1] starting"; echo "E0101 server.cc:9] \\"failed to stat model repository\\""; exit 1',
    )
    silent = script(tmp_path / "b/bin/tritonserver", "exit 3")
    bare = script(tmp_path / "c/bin/tritonserver", "exit 3")
    broken = tmp_path / "d/bin/tritonserver"
    script(broken, "").chmod(0o644)
    for server in (failing, silent, broken):
        (server.parent.parent / "backends/python").mkdir(parents=True)
    texts: dict[str, str] = {}
    for name, server in (("fails", failing), ("silent", silent), ("no backend", bare), ("not a program", broken)):
        result = ask("triton.own-server", HEALTHY, given={"tritonserver": str(server)})
        texts |= told(name, result)
    compare("triton-own", texts)


@pytest.fixture
def stub_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A stand-in for tritonserver that fails as it is told to."""
    monkeypatch.setitem(sys.modules, "tritonclient", None)  # gRPC has tests with a real server
    path = tmp_path / "bin/tritonserver"
    path.parent.mkdir()
    (tmp_path / "backends/python").mkdir(parents=True)
    text = (Path(__file__).parents[1] / "media/stubs/tritonserver.py").read_text(encoding="utf-8")
    path.write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
    path.chmod(0o755)

    def get(fault: str) -> Path:
        monkeypatch.setenv("TRITON_STUB", fault)
        return path

    return get


def test_a_server_of_this_host_that_fails(
    ask: Ask, compare: Compare, stub_server: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = tmp_path / "pid"
    monkeypatch.setenv("TRITON_STUB_PID", str(pid))
    texts: dict[str, str] = {}
    try:
        for fault in ("not loaded", "no counters", "no description", "stays"):
            result = ask("triton.own-server", HEALTHY, given={"tritonserver": str(stub_server(fault))})
            texts |= told(fault, result)
    finally:
        if pid.exists():
            os.kill(int(pid.read_text(encoding="utf-8")), signal.SIGKILL)
    program = ServerProgram(path=stub_server("never ready"), backends=tmp_path / "backends")
    with start_server(program, tmp_path / "never", find_free_ports(), patience_s=0.5) as running:
        texts["never ready"] = running.fault
    (tmp_path / "file").touch()
    with start_server(program, tmp_path / "file", find_free_ports()) as running:
        texts["no room"] = running.fault.replace(str(tmp_path), "$TMP")
    compare("triton-own-server", texts)


def test_a_trtexec_that_does_not_build(
    ask: Ask, compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scripts stand for trtexec: one that fails, one that is cut off, one that ends without a word."""
    known = {"tensorrt libraries": (), "tensorrt bindings": ()}
    texts: dict[str, str] = {}
    version = "echo '&&&& RUNNING TensorRT.trtexec [TensorRT v100300] # trtexec'"
    for name, text in (
        ("fails", f"{version}; echo '[E] Error[1]: out of memory'; echo '&&&& FAILED'; exit 1"),
        ("cut off", version),
        ("silent", "exit 2"),
    ):
        folder = tmp_path / name
        script(folder / "trtexec", text)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        result = ask("tensorrt.build", HEALTHY, known=known)
        texts |= told(name, result)
    engine = tmp_path / "model.plan"
    engine.write_bytes(b"ftrt" + bytes(12) + (100).to_bytes(8, "little") + bytes((10, 3, 0, 26)) + bytes(72))
    for name, given in (
        ("no module", {"engine": str(engine)}),
        ("for a server", {"engine": str(engine), "release": "25.08"}),
        ("no engine", {}),
        ("no file", {"engine": str(tmp_path / "nothing.plan")}),
    ):
        texts |= told(f"{name}, tensorrt.load", ask("tensorrt.load", HEALTHY, known=known, given=given))
    compare("tensorrt-trtexec", texts)


class Encoding:
    """Stands for FFmpeg: "encodes" any format, finds ``pixels`` in the file, and decodes ``frames`` frames."""

    def __init__(self, pixels: str = "", frames: int = 15, error: str = "") -> None:
        self._pixels, self._frames, self._error = pixels, frames, error

    def run(self, argv: tuple[str, ...], **_: Any) -> Finished:
        if "lavfi" in argv:
            self._codec = argv[argv.index("-c:v") + 1].partition("_")[0]
            given = argv[argv.index("-pix_fmt") + 1]
            self._made = self._pixels or {"p010le": "yuv420p10le", "yuv444p16le": "yuv444p10le"}.get(given, given)
            return says(err=self._error, code=1 if self._error else 0)
        if "rawvideo" in argv:
            Path(argv[-1]).write_bytes(bytes(640 * 360 * 3 // 2 * self._frames))
            return says()
        return says(err=f"  Stream #0:0: Video: {self._codec} (Main), {self._made}(tv), 640x360, 30 fps\n", code=1)


def test_pixel_formats(ask: Ask, compare: Compare) -> None:
    both = frozenset({"h264_nvenc", "hevc_nvenc"})
    place = Location(path="/f", origin="given", on_path=True)
    able = Program(
        place=place, about=About(word="7.1", version="7.1"), encoders=both, accelerations=frozenset({"cuda"})
    )
    texts: dict[str, str] = {}

    def one(name: str, device: Gpu, program: Program, runner: Encoding) -> None:
        nonlocal texts
        host = msgspec.structs.replace(HEALTHY, gpus=(device,))
        result = ask("ffmpeg.pixel-formats", host, on=runner, known={"ffmpeg programs": (program,)})
        if result.status == "pass":
            texts[f"{name}, pass"] = result.detail
        else:
            texts |= told(name, result)

    one("l4", L4, able, Encoding())
    one("8 bits made", L4, able, Encoding(pixels="yuv420p"))
    one("frames lost", L4, able, Encoding(frames=14))
    one("refused", L4, able, Encoding(error="No capable devices found"))
    one("no encoders", L4, msgspec.structs.replace(able, encoders=frozenset()), Encoding())
    one("unknown board", Gpu(name="NVIDIA Board", pci_id="10de:ffff"), able, Encoding())
    compare("ffmpeg-pixel-formats", texts)
