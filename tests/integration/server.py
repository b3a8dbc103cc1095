"""The vendor's hosts on loopback: a folder for each host name, served over https."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from tests.integration.keys import Certificate


class _Files(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def translate_path(self, path: str) -> str:
        host = self.headers.get("Host", "").partition(":")[0]
        return super().translate_path(f"/{host}/{path.lstrip('/')}")

    def log_message(self, *words: Any) -> None:  # type: ignore[override]
        """Say nothing: a failing package manager says what it missed."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *words: Any) -> None:
        """A client that hangs up early is no fault of the test."""


@contextmanager
def served(folder: Path, certificate: Certificate) -> Iterator[str]:
    """Serve ``folder/HOST/PATH`` as https://HOST/PATH on a loopback address of its own, and yield that address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.chain, certificate.key)
    server = _listening(folder)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield str(server.server_address[0])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _listening(folder: Path) -> _Server:
    # Any address of 127.0.0.0/8 is loopback; one of its own leaves port 443 of 127.0.0.1 to whoever has it.
    for number in range(1, 250):
        with suppress(OSError):
            return _Server((f"127.{number}.{os.getpid() % 250}.1", 443), partial(_Files, directory=str(folder)))
    msg = "no loopback address has port 443 free"
    raise OSError(msg)
