"""A stand-in for tritonserver, to fail in ways that the real one cannot be brought to: ``TRITON_STUB`` chooses how.

It answers HTTP as a server with the model gpustack_double does, in which nothing is computed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FAULT = os.environ["TRITON_STUB"]
GIVEN = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:])
NAME = "gpustack_double"
TENSOR = {"datatype": "FP32", "shape": [4]}
UNLOADED = [{"name": NAME, "version": "1", "state": "UNAVAILABLE", "reason": "Internal: no module named numpy"}]
COUNTERS = ("nv_inference_request_success", "nv_inference_count", "nv_inference_exec_count")
ROUTES: dict[str, object] = {
    "/v2": {"name": "triton", "version": "2.51.0"},
    "/v2/health/live": "",
    "/v2/health/ready": "",
    "/v2/repository/index": [],
    f"/v2/models/{NAME}": {
        "name": NAME,
        "versions": ["1"],
        "platform": "python",
        "inputs": [{"name": "IN", **TENSOR}],
        "outputs": [{"name": "OUT", **TENSOR}],
    },
    f"/v2/models/{NAME}/infer": {"outputs": [{"name": "OUT", **TENSOR, "data": [0, 2, 4, 6]}]},
    "/metrics": "".join(f"{name} 1\n" for name in COUNTERS),
}
if FAULT in {"not loaded", "never ready"}:
    del ROUTES["/v2/health/ready"]
if FAULT == "not loaded":
    ROUTES["/v2/repository/index"] = UNLOADED
if FAULT == "no counters":
    ROUTES["/metrics"] = "# nothing\n"
if FAULT == "no description":
    del ROUTES[f"/v2/models/{NAME}"]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = ROUTES.get(self.path)
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 (the base class's own name)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


if FAULT == "stays" and os.fork() == 0:
    os.setsid()  # out of the group that is ended
    Path(os.environ["TRITON_STUB_PID"]).write_text(str(os.getpid()), encoding="utf-8")
elif FAULT == "stays":
    threading.Event().wait()
servers = [ThreadingHTTPServer(("127.0.0.1", int(GIVEN[f"{kind}-port"])), Handler) for kind in ("http", "metrics")]
threading.Thread(target=servers[1].serve_forever, daemon=True).start()
servers[0].serve_forever()
