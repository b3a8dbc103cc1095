"""A proxy on loopback in front of a real server, or a server that misbehaves: what stands between users and Triton."""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

Answering = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answering: Answering

    def give(self, code: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", headers.get("claimed", str(len(body))))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        type(self).answering(self)

    def do_POST(self) -> None:
        type(self).answering(self)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


class _Six(ThreadingHTTPServer):
    address_family = socket.AF_INET6


def forwarding(port: int, *, prefix: str = "", user: str = "") -> Answering:
    """Hand requests on to the server at ``port``: those below ``prefix``, and of ``user`` ("name:password") alone."""
    wanted = f"Basic {base64.b64encode(user.encode()).decode()}" if user else ""

    def answer(asked: Handler) -> None:
        body = asked.rfile.read(int(asked.headers.get("Content-Length", 0)))
        if wanted and asked.headers.get("Authorization") != wanted:
            asked.give(401, b"<html><title>Sign in</title></html>", Content_Type="text/html")
        elif not asked.path.startswith(prefix):
            asked.give(404, b"<html><title>No such page</title></html>", Content_Type="text/html")
        else:
            behind = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
            behind.request(asked.command, asked.path.removeprefix(prefix), body, {"Content-Type": "application/json"})
            got = behind.getresponse()
            asked.give(got.status, got.read(), Content_Type=got.headers.get("Content-Type", ""))
            behind.close()

    return answer


@contextmanager
def serving(answering: Answering, *, certificate: Path | None = None, six: bool = False) -> Iterator[int]:
    """Answer on loopback for as long as the block lasts: the port. ``certificate`` holds a key too, for TLS."""
    handler = type("Bound", (Handler,), {"answering": staticmethod(answering)})
    server = _Six(("::1", 0), handler) if six else ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign] (clients that turn away are no error here)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
