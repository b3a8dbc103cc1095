"""A stand-in for a server of the first protocol: health, status and inference, over HTTP and gRPC.

HTTP is built from the pages of the 0.5 beta's user guide, gRPC from NVIDIA's grpc_service.proto of 18.11.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc

from gpustack.triton.pbtxt import first, parse
from gpustack.triton.wire import bytes_of, decoded, encoded, messages_of
from gpustack.verify.tensorrt.onnx import load_digits
from gpustack.verify.triton.own_server import find_free_ports

STATUS = """id: "inference:0"
version: "1.1.0"
uptime_ns: 23322988571
model_status {
  key: "gpustack_digits"
  value {
    config { name: "gpustack_digits" platform: "tensorrt_plan" max_batch_size: 1 }
    %s
  }
}
ready_state: SERVER_READY
"""


class Behaviour:
    """How the server behaves: what is loaded, and whether it answers rightly."""

    def __init__(self) -> None:
        self.state = "MODEL_READY"
        self.is_loaded_by_number = True
        self.is_live = True
        self.is_ready = True
        self.answer = load_digits().probabilities[0]
        self.asked: list[str] = []
        self.is_beta = False  # the beta's pages name the sizes of tensors, later servers do not know that field
        self.reason = ""
        self.best = 0  # added to the number of the most probable class
        self.counts = (2, 0)
        self.has_classes = True
        self.grpc_state = ""  # another state than over HTTP
        self.grpc_denies = ""  # the name of a call that is refused
        self.described = "gpustack_digits"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    behaviour: Behaviour

    def _send(self, code: int, status: str, body: bytes = b"", header: str = "") -> None:
        self.send_response(code)
        if header:
            self.send_header("NV-InferResponse", header)
        self.send_header("NV-Status", f'code: {status} server_id: "inference:0" request_id: 1')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        known = self.behaviour
        known.asked.append(self.path)
        if self.path == "/api/health/live":
            self._send(200 if known.is_live else 400, "SUCCESS" if known.is_live else "UNAVAILABLE")
        elif self.path == "/api/health/ready":
            self._send(200 if known.is_ready else 400, "SUCCESS" if known.is_ready else "UNAVAILABLE")
        elif self.path in {"/api/status", "/api/status/gpustack_digits"}:
            why = f'ready_state_reason {{ message: "{known.reason}" }}' if known.reason else ""
            done, failed = known.counts
            counts = f"infer_stats {{ key: 1 value {{ success {{ count: {done} }} failed {{ count: {failed} }} }} }}"
            value = f"{{ ready_state: {known.state} {why} {counts} }}"
            versions = f"version_status {{ key: 1 value {value} }}" if known.state else ""
            self._send(200, "SUCCESS", (STATUS % versions).encode())
        elif self.path == "/api/status/gpustack_digits?format=binary":
            self._send(200, "SUCCESS", binary_status(known.state))
        elif self.path.startswith("/api/status/"):
            self._send(400, 'INVALID_ARG msg: "no status available for unknown model"')
        elif self.path == "/metrics":
            self._send(200, "SUCCESS", b"# HELP x\nnv_inference_count 1\n")
        else:
            self._send(404, "NOT_FOUND")

    def do_POST(self) -> None:
        self.behaviour.asked.append(self.path)
        if self.path not in {"/api/infer/gpustack_digits", "/api/infer/gpustack_digits/1"}:
            self._send(400, 'NOT_FOUND msg: "no status available for unknown model"')
            return
        if self.path.endswith("/1") and not self.behaviour.is_loaded_by_number:
            self._send(400, 'NOT_FOUND msg: "no version 1 of model"')
            return
        body = self.rfile.read(int(self.headers["Content-Length"]))
        header = parse(self.headers.get("NV-InferRequest", ""))
        given = first(header, "input")
        fits = isinstance(given, dict) and first(given, "byte_size") == (784 * 4 if self.behaviour.is_beta else None)
        if not fits or not isinstance(given, dict) or first(given, "name") != "input" or len(body) != 784 * 4:
            self._send(400, 'INVALID_ARG msg: "unexpected size or name for input"')
            return
        values = self.behaviour.answer
        described = f'model_name: "{self.behaviour.described}" model_version: 1 batch_size: 1'
        wanted = first(header, "output")
        if isinstance(wanted, dict) and "cls" in wanted and not self.behaviour.has_classes:
            self._send(400, 'UNSUPPORTED msg: "no classes"')
            return
        if isinstance(wanted, dict) and "cls" in wanted:
            best = max(range(len(values)), key=values.__getitem__) + self.behaviour.best
            described += f' output {{ name: "output" batch_classes {{ cls {{ idx: {best} value: 0.9 label: "x" }} }} }}'
            values = []
        raw = struct.pack(f"<{len(values)}f", *values)
        if self.behaviour.is_beta:
            self._send(200, "SUCCESS", raw + described.encode())
        else:
            self._send(200, "SUCCESS", raw, described)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


MODEL_STATES = ("MODEL_UNKNOWN", "MODEL_READY", "MODEL_UNAVAILABLE", "MODEL_LOADING", "MODEL_UNLOADING")


def binary_status(state: str) -> bytes:
    """ServerStatus with one model; no version of it for a state of "" ."""
    version = encoded(2, encoded(1, 1) + encoded(2, encoded(1, MODEL_STATES.index(state)))) if state else b""
    model = encoded(1, "gpustack_digits") + encoded(2, version)
    return encoded(1, "inference:0") + encoded(2, "1.1.0") + encoded(4, model) + encoded(7, 2)


class GrpcService(grpc.GenericRpcHandler):  # type: ignore[misc]
    """GRPCService of 18.11: requests and responses are bytes."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._known = behaviour

    def service(self, details: Any) -> Any:
        service, _, method = details.method.strip("/").partition("/")
        answers: dict[str, Callable[[bytes], bytes]] = {
            "Health": self._health, "Status": self._status, "Infer": self._infer,
        }  # fmt: skip
        if service != "nvidia.inferenceserver.GRPCService" or method not in answers or self._known.is_beta:
            return None
        answer = answers[method]
        if self._known.grpc_denies == method:
            answer = lambda _: encoded(1, encoded(1, 6) + encoded(2, "not now"))  # noqa: E731
        return grpc.unary_unary_rpc_method_handler(lambda request, _: answer(request))

    def _health(self, request: bytes) -> bytes:
        mode = bytes_of(decoded(request), 1)
        is_well = self._known.is_live if mode == b"live" else self._known.is_ready
        return encoded(1, encoded(1, 1)) + encoded(2, int(is_well))

    def _status(self, _request: bytes) -> bytes:
        return encoded(1, encoded(1, 1)) + encoded(2, binary_status(self._known.grpc_state or self._known.state))

    def _infer(self, request: bytes) -> bytes:
        message = decoded(request)
        header = decoded(bytes_of(message, 3))
        given = messages_of(header, 2)[0]
        if bytes_of(given, 1) != b"input" or 2 in given or len(bytes_of(message, 4)) != 784 * 4:
            return encoded(1, encoded(1, 5) + encoded(2, "unexpected size or name for input"))
        values = self._known.answer
        return encoded(1, encoded(1, 1)) + encoded(3, struct.pack(f"<{len(values)}f", *values))


@contextmanager
def serving() -> Iterator[tuple[str, Behaviour]]:
    """A server on loopback, gRPC on the next port: its address, and how it behaves."""
    behaviour = Behaviour()
    handler = type("Bound", (Handler,), {"behaviour": behaviour})
    port, grpc_port, _ = find_free_ports()
    by_grpc = grpc.server(ThreadPoolExecutor(2), handlers=(GrpcService(behaviour),))
    by_grpc.add_insecure_port(f"127.0.0.1:{grpc_port}")
    by_grpc.start()
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", behaviour
    finally:
        by_grpc.stop(None)
        server.shutdown()
        thread.join()
        server.server_close()
