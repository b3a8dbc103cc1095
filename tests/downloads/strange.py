"""A server over https that sends what no server should: whole answers as bytes, for each connection anew."""

from __future__ import annotations

import socketserver
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any

from tests.integration.keys import Certificate

CONTENT = bytes(range(256)) * 400
TAG = b'ETag: "one"\r\n'


class Wire:
    """One connection that was asked for something."""

    def __init__(self, write: Callable[[bytes], object], number: int, start: int, go_on: Event) -> None:
        self.write = write
        self.number = number
        self.start = start
        self._go_on = go_on

    def head(self, *lines: bytes, status: bytes = b"200 OK") -> None:
        self.write(b"HTTP/1.1 " + status + b"\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n")

    def part(self, *, most: int | None = None, tag: bytes = b'"one"') -> None:
        """The file from where it is asked for, as a good server has it; the connection ends after ``most`` bytes."""
        rest = CONTENT[self.start :]
        about = [b"ETag: " + tag, b"Content-Length: %d" % len(rest)]
        if self.start:
            about.append(b"Content-Range: bytes %d-%d/%d" % (self.start, len(CONTENT) - 1, len(CONTENT)))
        self.head(*about, status=b"206 Partial Content" if self.start else b"200 OK")
        self.write(rest[:most])

    def wait(self, seconds: float) -> bool:
        """Whether the test is still there after a while."""
        return not self._go_on.wait(seconds)


Behaviour = Callable[[Wire], None]


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        start = 0
        with suppress(OSError):
            while line := self.rfile.readline(65536).strip():
                if line.lower().startswith(b"range: bytes="):
                    start = int(line.rpartition(b"=")[2].rstrip(b"-"))
            self.server.asked.append(start)
            self.server.behave(Wire(self.wfile.write, len(self.server.asked), start, self.server.go_on))


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, behave: Behaviour) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behave = behave
        self.asked: list[int] = []
        self.go_on = Event()

    def handle_error(self, *words: Any) -> None:
        """A client that hangs up early is no fault of the test."""


@contextmanager
def strange(certificate: Certificate, behave: Behaviour) -> Iterator[tuple[str, list[int]]]:
    """The address of a server that behaves so, and where each connection wanted the file to begin."""
    server = _Server(behave)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.chain, certificate.key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"https://localhost:{server.server_address[1]}/file.tar", server.asked
    finally:
        server.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()
