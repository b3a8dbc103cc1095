"""A server on loopback that misbehaves on request: each answer takes the next fault of a list, then all are good."""

from __future__ import annotations

import hashlib
import re
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from tests.integration.keys import Certificate


class Files:
    """What is served, what goes wrong next, and what was asked for: (path, Range)."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.faults: list[str] = []
        self.asked: list[tuple[str, str]] = []
        self.halfway = Event()
        self.go_on = Event()
        self.lock = Lock()

    def next_fault(self) -> str:
        with self.lock:
            return self.faults.pop(0) if self.faults else ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    files: Files

    def do_GET(self) -> None:
        self.files.asked.append((self.path, self.headers.get("Range", "")))
        content = self.files.content.get(self.path)
        fault = self.files.next_fault()
        if content is None:
            self.plain(404)
        elif fault.isdigit():
            self.plain(int(fault))
        elif fault.startswith("to "):
            self.plain(302, fault.removeprefix("to "))
        else:
            self.give(content, fault)

    def plain(self, code: int, location: str = "") -> None:
        self.send_response(code)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def give(self, content: bytes, fault: str) -> None:
        if fault == "other bytes":
            content = bytes(len(content) // 2) + content[len(content) // 2 :]
        elif fault == "other size":
            content += b"more"
        elif fault == "changed":
            content = content[::-1]
        tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        start = 0
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if wanted and fault != "no ranges" and self.headers.get("If-Range", tag) == tag:
            start = int(wanted[1]) + (1 if fault == "other range" else 0)
            if start >= len(content):
                self.plain(416)
                return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("ETag", tag)
        if fault != "no length":
            self.send_header("Content-Length", str(len(content) - start))
        else:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.send_body(content[start:], fault)

    def send_body(self, body: bytes, fault: str) -> None:
        half = len(body) // 2
        if fault in {"truncate", "reset", "stall", "wait"}:
            self.wfile.write(body[:half])
            self.wfile.flush()
            self.files.halfway.set()
            self.close_connection = True
            if fault in {"stall", "wait"}:
                self.files.go_on.wait(60)
            if fault == "wait":
                self.wfile.write(body[half:])
            if fault == "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
            return
        self.wfile.write(body)

    def log_message(self, *words: Any) -> None:  # type: ignore[override]
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *words: Any) -> None:
        """A client that hangs up early is no fault of the test."""


@contextmanager
def serving(files: Files, certificate: Certificate | None) -> Iterator[str]:
    """Serve ``files`` on loopback and yield the address without a slash at its end; plain http without certificate."""
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"files": files}))
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.chain, certificate.key)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"{'http' if certificate is None else 'https'}://localhost:{server.server_address[1]}"
    finally:
        files.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()


def authority_of(certificate: Certificate) -> Path:
    """What a client is told to trust."""
    return certificate.authority
