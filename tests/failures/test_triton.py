"""A server on loopback that answers HTTP as a Triton in trouble would, and what the checks say of each trouble."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.failures.conftest import Ask, Compare, told
from tests.failures.test_hosts import changed
from tests.media.v1server import serving as serving_v1
from tests.unit.verify.conftest import HEALTHY

from gpustack.matrix.index import load_matrix
from gpustack.triton import v2

Routes = dict[str, tuple[int, Any]]


@contextmanager
def serving(routes: Routes) -> Iterator[str]:
    """A server that knows the paths of ``routes``, each with status and body; any other is 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(length)
            status, body = routes.get(self.path, (404, {"error": "not found"}))
            content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815 (the base class's own name)

        def log_message(self, *_: object) -> None:
            """Nothing is logged."""

    servers: list[ThreadingHTTPServer] = []
    while len(servers) < 2:  # metrics are two ports above inferences, where another program may listen
        for one in servers:
            one.server_close()
        servers = [ThreadingHTTPServer(("127.0.0.1", 0), Handler)]
        with contextlib.suppress(OSError):
            servers.append(ThreadingHTTPServer(("127.0.0.1", servers[0].server_port + 2), Handler))
    threads = [threading.Thread(target=one.serve_forever, args=(0.01,), daemon=True) for one in servers]
    for thread in threads:
        thread.start()
    try:
        yield f"http://127.0.0.1:{servers[0].server_port}"
    finally:
        for one, thread in zip(servers, threads, strict=True):
            one.shutdown()
            thread.join()
            one.server_close()


def model(name: str = "digits", inputs: Any = None, outputs: Any = None) -> dict[str, Any]:
    tensor = {"datatype": "FP32", "shape": [1, 4]}
    return {
        "name": name,
        "versions": ["1"],
        "platform": "onnxruntime_onnx",
        "inputs": [{"name": "x", **tensor}] if inputs is None else inputs,
        "outputs": [{"name": "y", **tensor}] if outputs is None else outputs,
    }


def answer(values: list[float], name: str = "y") -> dict[str, Any]:
    return {"outputs": [{"name": name, "datatype": "FP32", "shape": [1, len(values)], "data": values}]}


WELL: Routes = {
    "/v2": (200, {"name": "triton", "version": "2.51.0"}),
    "/v2/health/live": (200, ""),
    "/v2/health/ready": (200, ""),
    "/v2/repository/index": (200, [{"name": "digits", "version": "1", "state": "READY"}]),
    "/v2/models/digits": (200, model()),
    "/v2/models/digits/ready": (200, ""),
    "/v2/models/digits/infer": (200, answer([1.0, 2.0, 3.0, 4.0])),
    "/v2/models/digits/stats": (200, {"model_stats": [{"inference_count": 0}]}),
    "/metrics": (200, "# nothing\n"),
}
DOUBLE = {
    "/v2/repository/index": (200, [{"name": "gpustack_double", "version": "1", "state": "READY"}]),
    "/v2/models/gpustack_double": (200, model("gpustack_double")),
    "/v2/models/gpustack_double/ready": (200, ""),
}
ILL: dict[str, tuple[str, Routes, dict[str, str]]] = {
    "another web server": ("triton.live", {"/": (200, "hello")}, {}),
    "not live": ("triton.live", {**WELL, "/v2/health/live": (503, {"error": "server is exiting"})}, {}),
    "not ready": (
        "triton.ready",
        {
            **WELL,
            "/v2/health/ready": (400, ""),
            "/v2/repository/index": (
                200,
                [
                    {"name": "resnet", "state": "UNAVAILABLE", "reason": "failed to load: no version"},
                    {"name": "bert", "state": "LOADING"},
                ],
            ),
        },
        {},
    ),
    "not ready, without a word": (
        "triton.ready",
        {**WELL, "/v2/health/ready": (400, ""), "/v2/repository/index": (500, "")},
        {},
    ),
    "no model": ("triton.model", {**WELL, "/v2/repository/index": (200, [])}, {}),
    "unknown model": ("triton.model", WELL, {"model": "resnet"}),
    "model that failed": (
        "triton.model",
        {
            **WELL,
            "/v2/repository/index": (200, [{"name": "resnet", "state": "UNAVAILABLE", "reason": "out of memory"}]),
        },
        {"model": "resnet"},
    ),
    "model without description": ("triton.model", {**WELL, "/v2/models/digits": (500, {"error": "internal"})}, {}),
    "model without inputs": ("triton.infer", {**WELL, "/v2/models/digits": (200, model(inputs=[]))}, {}),
    "model of two inputs": (
        "triton.infer",
        {
            **WELL,
            "/v2/models/digits": (
                200,
                model(inputs=[{"name": name, "datatype": "FP32", "shape": [1]} for name in ("a", "b")]),
            ),
        },
        {},
    ),
    "model of strings": (
        "triton.infer",
        {**WELL, "/v2/models/digits": (200, model(inputs=[{"name": "a", "datatype": "BYTES", "shape": [1]}]))},
        {},
    ),
    "description gone": ("triton.infer", {**WELL, "/v2/models/digits": (404, {"error": "unloaded"})}, {}),
    "inference refused": (
        "triton.infer",
        {**WELL, "/v2/models/digits/infer": (400, {"error": "unexpected shape for input 'x'"})},
        {},
    ),
    "another output": ("triton.infer", {**WELL, "/v2/models/digits/infer": (200, answer([1.0], "z"))}, {}),
    "no numbers": (
        "triton.infer",
        {
            **WELL,
            "/v2/models/digits/infer": (
                200,
                '{"outputs": [{"name": "y", "shape": [1], "datatype": "FP32", "data": [NaN]}]}',
            ),
        },
        {},
    ),
    "too few values": (
        "triton.infer",
        {**WELL, **DOUBLE, "/v2/models/gpustack_double/infer": (200, answer([0.0, 2.0]))},
        {},
    ),
    "wrong values": (
        "triton.infer",
        {**WELL, **DOUBLE, "/v2/models/gpustack_double/infer": (200, answer([0.0, 2.0, 4.0, 5.0]))},
        {},
    ),
    "no statistics": ("triton.statistics", {**WELL, "/v2/models/digits/stats": (404, {"error": "not built in"})}, {}),
    "nothing counted": ("triton.statistics", WELL, {}),
    "metrics without counters": ("triton.metrics", WELL, {}),
    "model that nobody loaded": (
        "triton.model",
        {**WELL, "/v2/repository/index": (200, [{"name": "resnet"}])},
        {"model": "resnet"},
    ),
    "metrics refused": ("triton.metrics", {**WELL, "/metrics": (403, "")}, {}),
}


def test_what_is_said_of_a_server_in_trouble(ask: Ask, compare: Compare, monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tritonclient", None)  # gRPC has tests with a real server
    texts: dict[str, str] = {}
    for name, (identity, routes, given) in ILL.items():
        with serving(routes) as url:
            result = ask(identity, HEALTHY, given={"url": url, **given})
            texts |= told(f"{name}, {identity}", result)
    compare("triton", without_ports(texts))


NEW_RELEASE = """\
schema: gpustack/matrix/v1
subject: triton
sources:
  ours: {address: "https://wiki.example.com/gpu", known: tested}
tables:
  releases:
    rows:
      - {version: "99.01", server: 9.99.0, src: [ours]}
"""


def test_a_release_of_which_only_its_name_is_known(ask: Ask, compare: Compare, tmp_path: Path) -> None:
    """Facts of a user's own tell of a release, and not which driver it needs."""
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts/triton.yaml").write_text(NEW_RELEASE, encoding="utf-8")
    result = ask("triton.driver", changed(versions={"triton": "9.99.0"}), matrix=load_matrix(tmp_path / "facts"))
    compare("triton-new-release", told("triton.driver", result))


def test_metrics_behind_a_proxy(ask: Ask, compare: Compare) -> None:
    with serving({f"/triton{path}": row for path, row in WELL.items() if path != "/metrics"}) as url:
        result = ask("triton.metrics", HEALTHY, given={"url": f"{url}/triton"})
    compare("triton-proxy", without_ports(told("triton.metrics", result)))


def test_what_is_said_beside_a_pass(ask: Ask, compare: Compare, monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tritonclient", None)
    counters = "".join(f"{name} 1\n" for name in v2.METRICS)
    texts: dict[str, str] = {}
    with serving({**WELL, "/metrics": (200, counters)}) as url:
        for identity in ("triton.infer", "triton.metrics"):
            texts[identity] = ask(identity, HEALTHY, given={"url": url}).detail
    with serving_v1() as (url, _):
        monkeypatch.setitem(__import__("sys").modules, "grpc", None)
        texts["triton.infer, v1"] = ask("triton.infer", HEALTHY, given={"url": url}).detail
        texts["triton.ready, 18.09"] = ask("triton.ready", HEALTHY, given={"url": url, "release": "18.09"}).detail
    compare("triton-passes", texts)


def without_ports(texts: dict[str, str]) -> dict[str, str]:
    return {key: re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", text) for key, text in texts.items()}


def test_nobody_listens(ask: Ask, compare: Compare) -> None:
    with serving({}) as url:
        pass
    result = ask("triton.live", HEALTHY, given={"url": url})
    compare("triton-silent", without_ports(told("triton.live", result)))


def test_what_nvidias_client_measures(ask: Ask, compare: Compare, monkeypatch: Any, tmp_path: Path) -> None:
    """Scripts stand for perf_analyzer; their output has the lines of the real one."""
    texts: dict[str, str] = {}
    client = tmp_path / "perf_analyzer"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with serving(WELL) as url:

        def one(name: str, body: str = "", url: str = url) -> None:
            nonlocal texts
            if body:
                client.write_text(f"#!/bin/sh\n{body}\n")
                client.chmod(0o755)
            result = ask("triton.perf", HEALTHY, given={"url": url})
            texts |= {f"{name}, pass": result.detail} if result.status == "pass" else told(name, result)

        one("not installed")
        one(
            "measured",
            'echo "    Throughput: 238.5 infer/sec"; echo "    Avg latency: 4190 usec (standard deviation 7 usec)"',
        )
        one("refused", 'echo "failed to get model metadata" >&2; exit 1')
        one("silent", "exit 0")
    with serving({f"/folder{path}": answer for path, answer in WELL.items()}) as url:
        one("behind a proxy", url=f"{url}/folder")
    compare("triton-perf", without_ports(texts))
