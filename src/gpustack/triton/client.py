"""Requests to a Triton server, and why one was not answered."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any
from urllib.parse import quote, urlsplit

from msgspec import Struct, field

from gpustack.errors import UsageError

METRICS_AFTER_HTTP = 2
"""The metrics' port is 8002 where HTTP's is 8000; a server on other ports is taken to keep the distance."""


class Answer(Struct, frozen=True, kw_only=True):
    """An HTTP answer. ``status`` is 0 where there was none; ``error`` says why. Header names are in lower case."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    error: str = ""

    @property
    def is_ok(self) -> bool:
        return self.status == 200

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:  # noqa: ANN401 (what a server says)
        """The body as JSON; None where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def why(self) -> str:
        """What went wrong, in the server's own words where it has some."""
        if self.error:
            return self.error
        told = self.json()
        said = told.get("error") if isinstance(told, dict) else None
        status = self.headers.get("nv-status", "")
        words = str(said or status or self.text.strip()[:200])
        return f"HTTP {self.status}{': ' if words else ''}{words}"


class Server(Struct, frozen=True, kw_only=True):
    """Where a server listens. Made by `server_at`."""

    host: str
    port: int
    is_secure: bool = False
    prefix: str = ""

    @property
    def url(self) -> str:
        return f"http{'s' if self.is_secure else ''}://{self.host}:{self.port}{self.prefix}"

    @property
    def metrics(self) -> Server:
        """The server's own metrics service."""
        return Server(host=self.host, port=self.port + METRICS_AFTER_HTTP)

    def get(self, path: str, *, timeout: float = 10.0) -> Answer:
        return self.ask("GET", path, timeout=timeout)

    def post(
        self, path: str, body: bytes = b"", headers: dict[str, str] | None = None, *, timeout: float = 30.0
    ) -> Answer:
        return self.ask("POST", path, body, headers, timeout=timeout)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        *,
        timeout: float,
    ) -> Answer:
        """Send one request; an answer of status 0 where none came within ``timeout`` seconds."""
        kind = http.client.HTTPSConnection if self.is_secure else http.client.HTTPConnection
        connection = kind(self.host, self.port, timeout=timeout)
        try:
            connection.request(method, self.prefix + path, body=body, headers=headers or {})
            got = connection.getresponse()
            return Answer(
                status=got.status, headers={name.lower(): value for name, value in got.getheaders()}, body=got.read()
            )
        except ConnectionRefusedError:
            return Answer(error=f"nothing listens at {self.host}:{self.port}")
        except socket.gaierror as exc:
            return Answer(error=f"{self.host} is no known host: {exc.strerror}")
        except TimeoutError:
            return Answer(error=f"no answer from {self.host}:{self.port} within {timeout:g} s")
        except (ConnectionError, http.client.HTTPException) as exc:
            return Answer(error=f"{self.host}:{self.port} broke off the answer ({type(exc).__name__})")
        except OSError as exc:
            return Answer(error=f"{self.host}:{self.port} cannot be reached: {exc.strerror or exc}")
        finally:
            connection.close()


def server_at(url: str) -> Server:
    """The server at ``url`` ("http://localhost:8000", "localhost:8000"). Raises UsageError where it is no URL."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == -1:
        msg = f"{url!r} is no address of a server"
        raise UsageError(msg, where="--url", hint="for example http://localhost:8000")
    return Server(
        host=parts.hostname, port=port or 8000, is_secure=parts.scheme == "https", prefix=parts.path.rstrip("/")
    )


def escaped(name: str) -> str:
    """A model's name as a part of a path."""
    return quote(name, safe="")
