"""Requests to a Triton server, and why one failed."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct, field

from gpustack.errors import UsageError

GRPC_AFTER_HTTP, METRICS_AFTER_HTTP = 1, 2
"""gRPC's port is 8001 and the metrics' 8002 where HTTP's is 8000; other ports are assumed to keep these offsets."""
_MOST_BYTES = 16 << 20
"""A longer response is not from a Triton server: the requests sent here have short responses."""
_IN_FRONT = {502, 503, 504}


class Answer(Struct, frozen=True, kw_only=True):
    """An HTTP response. ``status`` is 0 where there was none; ``error`` says why. Header names are in lower case."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    error: str = ""

    @property
    def is_ok(self) -> bool:
        """Whether the request succeeded. A web page does not count: some servers send one for any request."""
        return self.status == 200 and not self._page

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:  # noqa: ANN401 (what a server sends)
        """The body as JSON; None where it is not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    @property
    def why(self) -> str:
        """What went wrong, with the server's own message if it has one."""
        if self.error:
            return self.error
        if self.status in {401, 403}:
            return f"HTTP {self.status}: access denied; credentials go into the URL: --url http://USER:PASSWORD@HOST"
        if 300 <= self.status < 400:
            return (
                f"HTTP {self.status}: redirected to {self.headers.get('location', 'another address')}; use that as"
                " --url"
            )
        found = self.json()
        said = found.get("error") if isinstance(found, dict) else None
        words = str(said or self.headers.get("nv-status") or self._page or self.text.strip()[:200])
        front = " (from a proxy that cannot reach the server)" if self._is_in_front else ""
        return f"HTTP {self.status}{': ' if words else ''}{words}{front}"

    @property
    def _page(self) -> str:
        """The title of a web page, where the response is one: no Triton server sends pages."""
        if "html" not in self.headers.get("content-type", ""):
            return ""
        begin, _, _ = self.text.partition("</title>")
        _, found, title = begin.partition("<title>")
        return f"a web page ({title.strip()[:80]})" if found else "a web page"

    @property
    def _is_in_front(self) -> bool:
        return self.status in _IN_FRONT and bool(self._page)


class Server(Struct, frozen=True, kw_only=True):
    """Where a server listens. Made by `server_at`.

    ``authorization`` is the value of the header of that name, "" for none; it is never shown. ``patience_s`` is the
    time limit of a request; an inference has three times that.
    """

    host: str
    port: int
    is_secure: bool = False
    prefix: str = ""
    authorization: str = ""
    patience_s: float = 10.0

    @property
    def address(self) -> str:
        """Host and port, as they stand in a URL."""
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"http{'s' if self.is_secure else ''}://{self.address}{self.prefix}"

    @property
    def is_direct(self) -> bool:
        """Whether this is the server itself and not a proxy: then gRPC and metrics are at the next ports."""
        return not self.is_secure and not self.prefix

    @property
    def metrics(self) -> Server:
        """The server's own metrics service."""
        return Server(host=self.host, port=self.port + METRICS_AFTER_HTTP, patience_s=self.patience_s)

    @property
    def grpc(self) -> Server:
        """The server's own gRPC service."""
        return Server(host=self.host, port=self.port + GRPC_AFTER_HTTP, patience_s=self.patience_s)

    def get(self, path: str, *, timeout: float | None = None) -> Answer:
        return self.ask("GET", path, timeout=timeout or self.patience_s)

    def post(self, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Answer:
        return self.ask("POST", path, body, headers, timeout=3 * self.patience_s)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        *,
        timeout: float,
    ) -> Answer:
        """Send one request; the response has status 0 where none came within ``timeout`` seconds."""
        kind = http.client.HTTPSConnection if self.is_secure else http.client.HTTPConnection
        connection = kind(self.host, self.port, timeout=timeout)
        try:
            own = {"Authorization": self.authorization} if self.authorization else {}
            connection.request(method, self.prefix + path, body=body, headers={**own, **(headers or {})})
            got = connection.getresponse()
            whole = got.read(_MOST_BYTES + 1)
            if len(whole) > _MOST_BYTES:
                return Answer(error=f"the response of {self.address} exceeds {_MOST_BYTES >> 20} MiB")
            if got.length:
                raise http.client.IncompleteRead(whole, got.length)  # reading a part does not raise it
            found = {name.lower(): value for name, value in got.getheaders()}
            return Answer(status=got.status, headers=found, body=whole)
        except (OSError, http.client.HTTPException) as exc:
            return Answer(error=self._why(exc, timeout))
        finally:
            connection.close()

    def _why(self, exc: OSError | http.client.HTTPException, timeout: float) -> str:
        """Why there was no response, as a sentence."""
        if isinstance(exc, ConnectionRefusedError):
            return f"no server listens at {self.address}"
        if isinstance(exc, socket.gaierror):
            return f"host {self.host} is unknown: {exc.strerror}"
        if isinstance(exc, TimeoutError):
            return f"no response from {self.address} within {timeout:g} s"
        if isinstance(exc, ssl.SSLCertVerificationError):
            return (
                f"the certificate of {self.address} is not trusted ({exc.verify_message}); set SSL_CERT_FILE to the"
                " certificate of the authority that signed it"
            )
        if isinstance(exc, ssl.SSLError):
            return f"{self.address} does not support TLS ({exc.reason or exc}): try http://"
        if isinstance(exc, ConnectionError | http.client.HTTPException):
            return f"{self.address} closed the connection ({type(exc).__name__})"
        return f"{self.address} cannot be reached: {exc.strerror or exc}"


def server_at(url: str) -> Server:
    """The server at ``url`` ("http://localhost:8000", "localhost:8000"). Raises UsageError where it is not a URL.

    The default port is Triton's, and that of HTTPS for https.
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        msg = f"{url!r} is not the address of a server"
        raise UsageError(msg, code="invalid-value", where="--url", hint="for example http://localhost:8000")
    is_secure = parts.scheme == "https"
    named = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    basic = f"Basic {base64.b64encode(named.encode()).decode()}" if parts.username else ""
    return Server(
        host=parts.hostname,
        port=port or (443 if is_secure else 8000),
        is_secure=is_secure,
        prefix=parts.path.rstrip("/"),
        authorization=basic,
    )


def escaped(name: str) -> str:
    """A model's name as a part of a path."""
    return quote(name, safe="")
