"""A server on loopback that plays recorded answers: status, headers and body of each path."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Answer(NamedTuple):
    """One recorded answer. ``etag`` is answered with 304 when the request names it."""

    data: bytes
    headers: Mapping[str, str] = {}
    status: int = 200
    etag: str = ""
    length: int | None = None


@contextmanager
def serving(answers: Mapping[str, Answer]) -> Iterator[tuple[str, list[int]]]:
    """The address of a server with these answers, and the status of each request so far."""
    statuses: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(self.path, Answer(b"not here", status=404))
            if answer.etag and self.headers.get("If-None-Match") == answer.etag:
                answer = Answer(b"", {"ETag": answer.etag}, 304)
            statuses.append(answer.status)
            self.send_response(answer.status)
            for name, value in {**({"ETag": answer.etag} if answer.etag else {}), **answer.headers}.items():
                self.send_header(name, value)
            if answer.status != 304:
                self.send_header("Content-Length", str(len(answer.data) if answer.length is None else answer.length))
            self.end_headers()
            self.wfile.write(answer.data)

        def log_message(self, *_args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", statuses
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
