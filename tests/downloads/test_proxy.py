"""A proxy that wants a name and a password: given, downloads go through it; without, it is told, and nobody insists."""

from __future__ import annotations

import base64
import os
import select
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from tests.downloads.conftest import Place

from gpustack.system.asking import TransferError

PASSWORD = "open-sesame"  # noqa: S105 (of no account)
WANTED = "Basic " + base64.b64encode(f"somebody:{PASSWORD}".encode()).decode()


class _Proxy(BaseHTTPRequestHandler):
    asked: list[str]

    def do_CONNECT(self) -> None:
        self.asked.append(self.path)
        if self.headers.get("Proxy-Authorization") != WANTED:
            self.send_response(407)
            self.send_header("Proxy-Authenticate", "Basic realm=tests")
            self.end_headers()
            return
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port))) as other:
            self.send_response(200)
            self.end_headers()
            pair = {self.connection: other, other: self.connection}
            while ready := select.select(list(pair), [], [], 30)[0]:
                for one in ready:
                    content = one.recv(65536)
                    if not content:
                        return
                    pair[one].sendall(content)

    def log_message(self, *words: Any) -> None:  # type: ignore[override]
        """Say nothing."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the proxy was asked for; its port is in the environment, without a name."""
    found: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Proxy", (_Proxy,), {"asked": found}))
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("https_proxy", f"http://localhost:{server.server_address[1]}")
    yield found
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_download_through_it(
    asked: list[str], place: Place, monkeypatch: pytest.MonkeyPatch, named_proxy: str
) -> None:
    monkeypatch.setenv("https_proxy", named_proxy)
    assert place.is_right(place.fetch(place.offer()))
    assert asked == [place.address.removeprefix("https://")]


@pytest.fixture
def named_proxy(asked: list[str]) -> str:
    """The proxy's address with name and password."""
    assert asked == []
    return os.environ["https_proxy"].replace("//", f"//somebody:{PASSWORD}@")


@pytest.mark.parametrize("wrong", [False, True])
def test_a_password_that_is_missing_or_wrong(
    wrong: bool, asked: list[str], place: Place, monkeypatch: pytest.MonkeyPatch, named_proxy: str
) -> None:
    if wrong:
        monkeypatch.setenv("https_proxy", named_proxy.replace(PASSWORD, "guessed"))
    with pytest.raises(TransferError, match="the proxy requires a name and a password") as caught:
        place.fetch(place.offer())
    assert "https_proxy=http://NAME:PASSWORD@HOST:PORT" in caught.value.hint
    assert "guessed" not in f"{caught.value} {caught.value.where} {caught.value.hint}"
    assert len(asked) == 1
    assert not place.whole_files()
