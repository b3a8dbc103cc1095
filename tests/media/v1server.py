"""A small server of the first protocol, built from the pages of the 0.5 beta's user guide: health, status, infer."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gpustack.triton.pbtxt import first, parse
from gpustack.verify.tensorrt.onnx import load_digits

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


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    behaviour: Behaviour

    def _send(self, code: int, status: str, body: bytes = b"") -> None:
        self.send_response(code)
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
            versions = f"version_status {{ key: 1 value {{ ready_state: {known.state} }} }}" if known.state else ""
            self._send(200, "SUCCESS", (STATUS % versions).encode())
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
        self._send(200, "SUCCESS", struct.pack(f"<{len(values)}f", *values) + b'model_name: "gpustack_digits"')

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


@contextmanager
def serving() -> Iterator[tuple[str, Behaviour]]:
    """A server on loopback: its address, and how it behaves."""
    behaviour = Behaviour()
    handler = type("Bound", (Handler,), {"behaviour": behaviour})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", behaviour
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
