"""Triton: the first protocol against a small server, a real tritonserver out of a wheel, and model repositories."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.media.conftest import L4, Check, Wheel, host_with
from tests.media.v1server import serving

from gpustack.matrix.index import Matrix
from gpustack.triton import v1, v2
from gpustack.triton.client import Server, server_at
from gpustack.triton.pbtxt import Name, first, parse, write
from gpustack.triton.rules import judge
from gpustack.triton.served import tensorrt_of_triton
from gpustack.triton.store import NewModel, create_version
from gpustack.verify.triton.own_server import ServerProgram, find_free_ports, start_server, write_double


def test_text_of_protobuf_is_read_and_written() -> None:
    text = (
        'name: "a\\"b" # why\nmax: -1 dims: [ 1, 28 ] dims: 3 on: true kind: KIND_GPU\npart < x: 1.5 > part { x: 2 }\n'
    )
    found = parse(text)
    assert found["name"] == ['a"b']
    assert found["dims"] == [1, 28, 3]
    assert isinstance(first(found, "kind"), Name)
    assert [first(one, "x") for one in found["part"] if isinstance(one, dict)] == [1.5, 2]
    assert parse(write(found)) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a {", "ends inside a message"),
        ("a: 1\n}", "line 2: '}' is not the name of a field"),
        ("a: [1 2]", "a comma or ] is missing"),
        ("a: 1\n$", "line 2: '$' is not valid"),
        (": 1", "is not the name of a field"),
        ("a {" * 80, "nested too deeply"),
    ],
)
def test_broken_text_names_its_line(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse(text)
    assert words in str(caught.value)


def test_the_status_page_of_the_guide_is_read() -> None:
    found = v1.read_status(
        'id: "inference:0"\nversion: "1.1.0"\nuptime_ns: 23322988571\nmodel_status {\n  key: "resnet50_netdef"\n'
        '  value {\n    config {\n      name: "resnet50_netdef"\n      platform: "caffe2_netdef"\n    }\n'
        "    version_status {\n      key: 1\n      value {\n        ready_state: MODEL_READY\n      }\n    }\n  }\n}\n"
        "ready_state: SERVER_READY\n"
    )
    assert (found.state, found.models) == ("SERVER_READY", {"resnet50_netdef": {1: "MODEL_READY"}})


def test_live_and_ready_changed_places_after_the_beta() -> None:
    assert v1.live_means_loaded("18.10")
    assert not v1.live_means_loaded("18.11")
    assert not v1.live_means_loaded(None)


def test_the_first_protocol(check: Check) -> None:
    with serving() as (url, behaviour):
        found = check("triton", "smoke", host_with(L4), url=url)
        assert {name: found[f"triton.{name}"].status for name in ("live", "ready", "model", "infer")} == dict.fromkeys(
            ("live", "ready", "model", "infer"), "pass"
        )
        assert found["triton.live"].detail == f"{url}: protocol v1, version 1.1.0"
        assert found["triton.infer"].detail == ("gpustack_digits: HTTP (v1): correct output; gRPC (v1): correct output")
        assert found["triton.statistics"].detail == "gpustack_digits: 2 inferences, 0 failed"
        assert [path for path in behaviour.asked if path.startswith("/api/infer")] == [
            "/api/infer/gpustack_digits",
            "/api/infer/gpustack_digits/1",
            "/api/infer/gpustack_digits",
        ]

        behaviour.is_beta = True
        beta = check("triton", "smoke", host_with(L4), url=url, release="0.5.0")
        assert beta["triton.infer"].detail == (
            "gpustack_digits: HTTP (v1): correct output; gRPC was not tested: this server has no GRPCService, which"
            " came with 18.11"
        )
        behaviour.is_beta = False

        behaviour.answer = behaviour.answer[::-1]
        wrong = check("triton", "smoke", host_with(L4), url=url)["triton.infer"]
        assert wrong.status == "fail"
        assert "the output is wrong" in wrong.reason

        behaviour.state, behaviour.is_ready, behaviour.reason = "MODEL_UNAVAILABLE", False, "no GPU of 7.0"
        away = check("triton", "smoke", host_with(L4), url=url, model="gpustack_digits")
        assert "version 1 is MODEL_UNAVAILABLE: no GPU of 7.0" in away["triton.ready"].reason
        assert "no version of gpustack_digits is ready" in away["triton.model"].reason
        unknown = check("triton", "smoke", host_with(L4), url=url, model="other")["triton.model"]
        assert "the server does not have other" in unknown.reason

        behaviour.is_live = False
        dead = check("triton", "smoke", host_with(L4), url=url, release="18.09")["triton.live"]
        assert "in this release, live means that every model is loaded" in dead.reason
        assert dead.reason.endswith(": gpustack_digits, version 1 is MODEL_UNAVAILABLE: no GPU of 7.0")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"best": 1}, "the most probable classes are wrong: "),
        ({"described": "other"}, "the response describes the model other instead of gpustack_digits"),
        ({"grpc_state": "MODEL_LOADING"}, "the status does not list gpustack_digits as ready"),
        ({"grpc_denies": "Health"}, "Health failed: UNAVAILABLE: not now"),
        ({"grpc_denies": "Status"}, "Status failed: UNAVAILABLE: not now"),
        ({"grpc_denies": "Infer"}, "Infer failed: UNAVAILABLE: not now"),
    ],
)
def test_what_an_inference_by_the_first_protocol_finds(check: Check, change: dict[str, Any], words: str) -> None:
    with serving() as (url, behaviour):
        for name, value in change.items():
            setattr(behaviour, name, value)
        found = check("triton", "smoke", host_with(L4), url=url)["triton.infer"]
    assert found.status == "fail"
    assert words in found.reason


def test_nobody_listens(check: Check) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        found = check("triton", "smoke", host_with(L4), url=f"http://127.0.0.1:{port}")
    assert found["triton.live"].reason == f"no server listens at 127.0.0.1:{port}"
    assert found["triton.infer"].status == "fail"


@pytest.fixture(scope="module")
def tritonserver(wheel: Wheel, tmp_path_factory: pytest.TempPathFactory) -> ServerProgram:
    """The server of the wheel nvidia-pytriton, laid out like a server's own folder, with the backend of this Python."""
    packed = wheel("nvidia-pytriton==0.7.0")
    # The wheel's Python backend was built for the numpy of its day.
    numpy = wheel("numpy==1.26.4")
    home = tmp_path_factory.mktemp("triton")
    inside = packed / "pytriton" / "tritonserver"
    shutil.copytree(inside / "backends", home / "backends")
    stub = inside / "python_backend_stubs" / f"{sys.version_info.major}.{sys.version_info.minor}"
    shutil.copy(stub / "triton_python_backend_stub", home / "backends" / "python")
    (home / "backends" / "python" / "triton_python_backend_stub").chmod(0o755)
    (home / "bin").mkdir()
    libraries = f"{packed / 'nvidia_pytriton.libs'}:{sysconfig.get_config_var('LIBDIR')}"
    program = home / "bin" / "tritonserver"
    program.write_text(
        # The backend's Python looks into the folder where it starts before its own packages.
        f"#!/bin/sh\ncd {numpy} || exit\nexport LD_LIBRARY_PATH={libraries}\n"
        f'exec {inside / "bin" / "tritonserver"} --allow-gpu-metrics=false "$@"\n'
    )
    program.chmod(0o755)
    return ServerProgram(path=program, backends=home / "backends")


def until(holds: Callable[[], bool], seconds: float = 300.0) -> bool:
    end = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < end:
        time.sleep(0.05)
    return held


@pytest.fixture(scope="module")
def running(tritonserver: ServerProgram, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_server(tritonserver, tmp_path_factory.mktemp("run"), find_free_ports()) as found:
        assert found.server, (found.fault, found.log)
        yield found.server


def test_a_real_server_is_verified_over_v2(check: Check, running: Server) -> None:
    """tritonserver 2.51 on loopback, a model of its Python backend, no GPU."""
    found = check("triton", "smoke", host_with(L4), url=running.url)
    assert {one.id: (one.status, one.reason) for one in found.values() if one.status not in {"pass", "skip"}} == {}
    assert "protocol v2, version 2." in found["triton.live"].detail
    assert found["triton.model"].detail.startswith("gpustack_double (python), version 1: IN FP32[4], OUT FP32[4]")
    assert found["triton.infer"].detail.startswith("gpustack_double: HTTP: correct output")
    assert int(found["triton.statistics"].measurements["inferences"].value) >= 1
    assert found["triton.metrics"].status == "pass"


def test_a_model_that_was_unloaded_is_missed(check: Check, running: Server) -> None:
    assert running.post("/v2/repository/models/gpustack_double/unload").is_ok
    try:
        assert until(lambda: [row.get("state") for row in v2.index(running)] == ["UNAVAILABLE"])
        found = check("triton", "smoke", host_with(L4), url=running.url, model="gpustack_double")
        assert found["triton.model"].status == "fail"
        assert "UNAVAILABLE unloaded" in found["triton.model"].reason
        none = check("triton", "smoke", host_with(L4), url=running.url)["triton.model"]
        assert (none.status, none.reason) == ("skip", "no model of the server is ready")
    finally:
        assert running.post("/v2/repository/models/gpustack_double/load").is_ok
        assert until(lambda: v2.model_ready(running, "gpustack_double").is_ok)


def test_our_own_server_is_started_and_stopped(check: Check, tritonserver: ServerProgram) -> None:
    found = check("triton", "smoke", host_with(L4), tritonserver=str(tritonserver.path))["triton.own-server"]
    assert found.status == "pass", found
    assert found.detail.endswith("started, correct output, metrics, stopped")
    assert not [line for line in _processes() if "gpustack-verify-" in line and "tritonserver" in line]


def _processes() -> list[str]:
    return subprocess.run(["ps", "-wweo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_port_that_is_taken_is_told(tritonserver: ServerProgram, tmp_path: Path) -> None:
    ports = find_free_ports()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", ports[0]))
        taken.listen()
        with start_server(tritonserver, tmp_path, ports) as found:
            assert found.server is None
    assert "ended with exit status 1 before it was ready" in found.fault
    assert "in use" in found.fault or "failed to start HTTP service" in found.fault


def test_a_model_with_a_wrong_answer_is_found_out(check: Check, tritonserver: ServerProgram, tmp_path: Path) -> None:
    """Slow to load as well: the server is waited for, then its answer is wrong."""
    with _server(
        tritonserver, tmp_path, "* numpy.float32(2)", "* numpy.float32(3)", load="import time; time.sleep(1)"
    ) as server:
        found = check("triton", "smoke", host_with(L4), url=server.url)
    assert found["triton.infer"].status == "fail"
    assert "the output is wrong: [0, 3, 6, 9] instead of [0, 2, 4, 6]" in found["triton.infer"].reason


def test_a_server_killed_in_the_middle_is_told(check: Check, tritonserver: ServerProgram, tmp_path: Path) -> None:
    dies = "import os, signal; os.kill(int(open('PID').read()), signal.SIGKILL)\n            doubled"
    with _server(tritonserver, tmp_path, "doubled", dies.replace("PID", str(tmp_path / "pid")), once=True) as server:
        found = check("triton", "smoke", host_with(L4), url=server.url)
    assert found["triton.infer"].status == "fail"
    assert "closed the connection" in found["triton.infer"].reason


class _server:  # noqa: N801 (used like a function)
    """A real server whose model was changed: words replaced in it, or something done while it loads."""

    def __init__(
        self, program: ServerProgram, folder: Path, old: str, new: str, *, load: str = "", once: bool = False
    ) -> None:
        write_double(folder / "models")
        path = folder / "models" / "gpustack_double" / "1" / "model.py"
        text = path.read_text().replace(old, new, 1 if once else -1)
        path.write_text(f"{load}\n{text}")
        ports = find_free_ports()
        words = [f"--{kind}-port={port}" for kind, port in zip(("http", "grpc", "metrics"), ports, strict=True)]
        command = [
            str(program.path),
            f"--model-repository={folder / 'models'}",
            f"--backend-directory={program.backends}",
        ]
        self._process = subprocess.Popen(
            [*command, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        (folder / "pid").write_text(str(self._process.pid))
        self._server = Server(host="127.0.0.1", port=ports[0])

    def __enter__(self) -> Server:
        assert until(lambda: v2.ready(self._server, timeout=2).is_ok)
        return self._server

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def head(tensorrt: str, size: int = 100) -> bytes:
    """An engine file's header by that TensorRT, and nothing in it."""
    numbers = bytes(int(one) for one in tensorrt.split("."))
    return (b"ftrt" + bytes(12) + size.to_bytes(8, "little") + numbers).ljust(size, b"\0")


def new(tmp_path: Path, **changes: object) -> NewModel:
    engine = tmp_path / "engine"
    engine.write_bytes(head("10.9.0.34"))
    plain: dict[str, object] = {
        "name": "net", "platform": "tensorrt_plan", "files": {"": engine},
        "inputs": (("data", "TYPE_FP32", (1, 28, 28)),), "outputs": (("prob", "TYPE_FP32", (10,)),),
    }  # fmt: skip
    return NewModel(**{**plain, **changes})  # type: ignore[arg-type]


def test_a_repository_is_laid_out_as_its_release_reads_it(matrix: Matrix, tmp_path: Path) -> None:
    store = tmp_path / "store"
    engine = tmp_path / "engine"
    model = new(tmp_path, labels=("zero", "one"), max_batch=8, keep=2, copies=2, gpus=(0,))
    folder = create_version(store, model, "25.03")
    engine.write_bytes(head("10.9.0.34", 120))
    create_version(store, new(tmp_path, number=2, files={"8.9": engine, "9.0": engine}, keep=0), "25.03")
    assert (folder / "prob_labels.txt").read_text() == "zero\none\n"
    assert sorted(path.name for path in (folder / "2").iterdir()) == ["model_cc8_9.plan", "model_cc9_0.plan"]
    config = parse((folder / "config.pbtxt").read_text())
    assert {
        first(one, "key"): first(one, "value") for one in config["cc_model_filenames"] if isinstance(one, dict)
    } == {
        "8.9": "model_cc8_9.plan",
        "9.0": "model_cc9_0.plan",
    }
    (folder / "1").rename(folder / "old")
    shutil.rmtree(folder / "old")
    found = judge(matrix, store, "25.03", ("8.9",))
    assert (found.is_good, found.models) == (True, {"net": (2,)})
    lacking = judge(matrix, store, "25.03", ("7.5",))
    assert "neither a file for compute capability 7.5" in lacking.findings[0].message


def test_a_version_is_never_written_over(tmp_path: Path) -> None:
    from gpustack.errors import UsageError

    create_version(tmp_path / "store", new(tmp_path), "25.03")
    with pytest.raises(UsageError, match="already exists"):
        create_version(tmp_path / "store", new(tmp_path), "25.03")
    for wrong in ({"name": "../evil"}, {"number": 0}, {"files": {}}, {"files": {"x": tmp_path / "engine"}}):
        with pytest.raises(UsageError):
            create_version(tmp_path / "other", new(tmp_path, **wrong), "25.03")
    assert not (tmp_path / "other").exists()


CONFIG = 'name: "net"\nplatform: "tensorrt_plan"\ninput { name: "d" data_type: TYPE_FP32 dims: [ 3 ] }\noutput { name: "p" data_type: TYPE_FP32 dims: [ 1 ] }\n'


BATCHED = CONFIG + "max_batch_size: 4\n"
ENSEMBLE = CONFIG.replace("tensorrt_plan", "ensemble") + (
    'ensemble_scheduling { step { model_name: "other" input_map { key: "x" value: "d" }'
    ' output_map { key: "y" value: "p" } } }\n'
)


def findings(
    matrix: Matrix, tmp_path: Path, config: str | None, release: str = "25.03", versions: tuple[str, ...] = ("1",)
) -> list[str]:
    folder = tmp_path / "store" / "net"
    folder.mkdir(parents=True)
    if config is not None:
        (folder / "config.pbtxt").write_text(config)
    for one in versions:
        (folder / one).mkdir()
        (folder / one / "model.plan").write_bytes(head(tensorrt_of_triton(matrix, release) or "5.0.0.1"))
    return [
        f"{one.severity}: {one.place}: {one.message}" for one in judge(matrix, tmp_path / "store", release).findings
    ]


@pytest.mark.parametrize(
    ("config", "release", "versions", "words"),
    [
        (
            CONFIG.replace('"net"', '"other"'),
            "25.03",
            ("1",),
            "error: net/config.pbtxt: has name: other, but the folder is net",
        ),
        (CONFIG + "colour: 3\n", "25.03", ("1",), "colour is not a field"),
        (CONFIG.replace("TYPE_FP32 dims: [ 3 ]", "FP32 dims: [ 3 ]"), "25.03", ("1",), "input d: data_type is FP32"),
        (CONFIG.replace("[ 3 ]", "[ 0 ]"), "25.03", ("1",), "0 is not a dimension"),
        (CONFIG + "dynamic_batching { }\n", "25.03", ("1",), "dynamic_batching requires a max_batch_size above 0"),
        (
            CONFIG + "max_batch_size: 4 dynamic_batching { } sequence_batching { }\n",
            "25.03",
            ("1",),
            "exclude each other",
        ),
        (CONFIG + "instance_group { kind: KIND_CPU gpus: [ 0 ] }\n", "25.03", ("1",), "KIND_CPU does not allow gpus"),
        (
            CONFIG.replace("dims: [ 1 ]", 'dims: [ 1 ] label_filename: "l.txt"'),
            "25.03",
            ("1",),
            "net/l.txt: is set as label file",
        ),
        (
            CONFIG + "version_policy { specific { versions: [ 3 ] } }\n",
            "25.03",
            ("1",),
            "version_policy requires version 3, which does not exist",
        ),
        (CONFIG + 'default_model_filename: "x.plan"\n', "25.03", ("1",), "net/1/x.plan: is missing"),
        (CONFIG.replace("tensorrt_plan", "caffe2_netdef"), "25.03", ("1",), "caffe2_netdef is supported up to 20.10"),
        (CONFIG, "25.03", ("one", "1"), "warning: net/one: is not a number"),
        (CONFIG, "25.03", ("01", "1"), "warning: net/01: begins with 0"),
        (CONFIG, "25.03", (), "has no version"),
        (None, "20.06", ("1",), "config.pbtxt: is missing; Triton 20.06 requires it"),
        ("name: {", "25.03", ("1",), "cannot be read: the text ends inside"),
        (CONFIG, "18.12", ("7", "007"), "error: net/7: is the same version as 007"),
        (CONFIG + "default_model_filename: 'a.plan'\n", "18.12", ("007",), "error: net/007/a.plan: is missing"),
        (CONFIG + "model_warmup { }\n", "19.08", ("1",), "model_warmup is known from 19.12 on; this server is 19.08"),
        (CONFIG + "tags { }\n", "19.06", ("1",), "tags is known up to 19.02; this server is 19.06"),
        (CONFIG.replace("FP32", "STRING"), "18.12", ("1",), "input d: data_type is TYPE_STRING"),
        (CONFIG + "instance_group { kind: KIND_MODEL }\n", "19.08", ("1",), "KIND_MODEL is not a kind of Triton 19.08"),
        (
            BATCHED + "dynamic_batching { preferred_batch_size: [ 2, 8 ] }\n",
            "25.03",
            ("1",),
            "8 exceeds max_batch_size",
        ),
        (BATCHED + "dynamic_batching { preferred_batch_size: 0 }\n", "25.03", ("1",), "0 is not a number above 0"),
        (
            ENSEMBLE.replace('"ensemble"', '"tensorrt_plan"'),
            "25.03",
            ("1",),
            "ensemble_scheduling, but platform tensorrt",
        ),
        (ENSEMBLE, "19.01", ("1",), "ensemble is supported from 19.04 on; this server is 19.01"),
        (ENSEMBLE, "25.03", ("1",), "step 1 of the ensemble requires the model other, which is not in the repository"),
        (ENSEMBLE.replace('value: "p"', 'value: "q"'), "25.03", ("1",), "no step writes the tensor p"),
        (ENSEMBLE.replace("input_map", "x_map"), "25.03", ("1",), "step 1 of the ensemble has no input_map"),
        (ENSEMBLE + "instance_group { count: 1 }\n", "25.03", ("1",), "ensembles do not allow instance_group"),
        (ENSEMBLE.split("ensemble_sch", 1)[0], "25.03", ("1",), "has platform ensemble, but no ensemble_scheduling"),
    ],
)
def test_each_rule_of_a_repository(
    matrix: Matrix, tmp_path: Path, config: str | None, release: str, versions: tuple[str, ...], words: str
) -> None:
    found = findings(matrix, tmp_path, config, release, versions)
    assert any(words in one for one in found), found


@pytest.mark.parametrize(
    ("platform", "present", "words"),
    [
        ("caffe2_netdef", ("model.netdef",), "net/1/init_model.netdef: is missing: a NetDef has two files"),
        ("caffe2_netdef", ("init_model.netdef",), "net/1/model.netdef: is missing"),
        ("caffe2_netdef", ("model.netdef", "init_model.netdef"), ""),
        ("tensorflow_savedmodel", ("model.savedmodel",), "net/1/model.savedmodel: is a file; a SavedModel is a folder"),
        ("tensorflow_savedmodel", ("model.savedmodel/variables/x",), "net/1/model.savedmodel: has no saved_model.pb"),
        ("tensorflow_savedmodel", ("model.savedmodel/saved_model.pb",), ""),
        ("tensorflow_graphdef", ("model.graphdef",), ""),
    ],
)
def test_the_files_of_each_kind(
    matrix: Matrix, tmp_path: Path, platform: str, present: tuple[str, ...], words: str
) -> None:
    folder = tmp_path / "net"
    for name in present:
        (folder / "1" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "1" / name).touch()
    (folder / "config.pbtxt").write_text(CONFIG.replace("tensorrt_plan", platform))
    found = [f"{one.place}: {one.message}" for one in judge(matrix, tmp_path, "18.09").findings]
    assert [one for one in found if not one.startswith(words)] == []
    assert bool(found) is bool(words)


def test_an_empty_version_without_config_is_identified_by_no_server(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "net" / "1").mkdir(parents=True)
    found = judge(matrix, tmp_path, "24.05").findings
    assert [(one.place, one.severity) for one in found] == [("net/1", "error")]
    assert found[0].message == "has no file of a kind that the server identifies, and the model has no config.pbtxt"


def test_an_ensemble_of_a_model_that_is_there(matrix: Matrix, tmp_path: Path) -> None:
    assert findings(matrix, tmp_path, CONFIG) == []
    (tmp_path / "store" / "pair" / "1").mkdir(parents=True)
    config = ENSEMBLE.replace('name: "net"', 'name: "pair"').replace('"other"', '"net"')
    (tmp_path / "store" / "pair" / "config.pbtxt").write_text(config)
    assert judge(matrix, tmp_path / "store", "25.03").findings == ()


def test_a_sound_repository_has_no_findings(matrix: Matrix, tmp_path: Path) -> None:
    assert findings(matrix, tmp_path, CONFIG) == []


def test_a_folder_without_config_is_completed_from_22_07_on(matrix: Matrix, tmp_path: Path) -> None:
    assert findings(matrix, tmp_path, None) == []


def test_the_repository_of_the_digits_network_is_good_and_served(
    tmp_path: Path, call_gpustack: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    ended = call_gpustack(
        "triton", "model-store", str(tmp_path / "s"), "--digits", "--release", "25.03", "--format", "json"
    )
    assert ended.returncode == 0, ended.stderr
    assert "a running server notices it with --model-control-mode=poll" in ended.stderr
    assert json.loads(ended.stdout) == {"models": {"gpustack_digits": [1]}, "findings": []}
    old = call_gpustack("triton", "model-store", str(tmp_path / "s"), "--release", "18.11")
    assert old.returncode == 1
    assert "onnxruntime_onnx is supported from 19.06 on" in old.stdout
    beta = call_gpustack("triton", "model-store", str(tmp_path / "beta"), "--digits", "--release", "0.5")
    assert beta.returncode == 2
    assert "onnxruntime_onnx is supported from 19.06 on; this server is 0.5.0" in beta.stderr
    assert not (tmp_path / "beta").exists()
    wrong = call_gpustack("triton", "model-store", str(tmp_path / "s"), "--release", "25.99")
    assert wrong.returncode == 2
    assert "'25.99' is not a release of Triton" in wrong.stderr
    (tmp_path / "empty").mkdir()
    empty = call_gpustack("triton", "model-store", str(tmp_path / "empty"))
    missing = call_gpustack("triton", "model-store", str(tmp_path / "missing"))
    assert (empty.returncode, missing.returncode) == (1, 2)
    assert "--digits" in empty.stdout
    assert "--digits" in missing.stderr
    assert not (tmp_path / "missing").exists()
    assert server_at("localhost:9000").metrics.url == "http://localhost:9002"


@pytest.fixture
def call_gpustack() -> Callable[..., subprocess.CompletedProcess[str]]:
    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "gpustack", *words], capture_output=True, text=True, check=False)

    return call


def test_a_tritonclient_without_grpc_is_as_good_as_none(tmp_path: Path) -> None:
    """Installed without its extra, the package stops its own import with RuntimeError."""
    (tmp_path / "tritonclient" / "grpc").mkdir(parents=True)
    (tmp_path / "tritonclient" / "grpc" / "__init__.py").write_text('raise RuntimeError("does not include grpc")\n')
    (tmp_path / "tritonclient" / "__init__.py").touch()
    (tmp_path / "numpy.py").touch()
    program = (
        "from gpustack.triton.client import server_at\n"
        "from gpustack.verify.triton.infer import Sample, infer_over_grpc\n"
        "ask = Sample(tensor=('IN', 'FP32', (4,)), values=[0.0] * 4, output='OUT')\n"
        "print(infer_over_grpc(server_at('localhost'), 'any', ask))\n"
    )
    paths = f"{tmp_path}:{os.environ['PYTHONPATH']}" if "PYTHONPATH" in os.environ else str(tmp_path)
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout == "None\n", ended.stderr
