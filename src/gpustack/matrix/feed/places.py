"""Where updates are read from: a server, a folder, or one file; as the transport of python-tuf's client.

Nothing here is trusted: python-tuf verifies all that comes, and stops reading at the length that was signed.
"""

from __future__ import annotations

import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tuf.api.exceptions import DownloadError, DownloadHTTPError, SlowRetrievalError
from tuf.ngclient.fetcher import FetcherInterface

from gpustack.errors import UsageError
from gpustack.system import asking
from gpustack.system.http import pieces

CHUNK = 1 << 16
TIMEOUT = (20.0, 30.0)
"""Seconds for a connection, and for each read."""
LONGEST = 600.0
"""The most seconds for one file: a server that sends a byte at a time cannot hold an update up."""
_BASE = "update:/"


@contextmanager
def open_place(source: str) -> Iterator[tuple[FetcherInterface, str]]:
    """The transport and the base address of a source: an address, a folder, or one file. Raises UsageError."""
    if source.startswith(("http://", "https://")):
        server = Server()
        try:
            yield server, source.rstrip("/")
        finally:
            server.close()
    else:
        yield _on_this_machine(source), _BASE


def _on_this_machine(source: str) -> FetcherInterface:
    path = Path(source)
    if path.is_dir():
        return Folder(path)
    if not path.is_file() or not zipfile.is_zipfile(path):
        what = "is not an update in one file" if path.exists() else "does not exist"
        hint = "an address (https://...), a folder with metadata/ and targets/, or the one file of a publisher"
        raise UsageError(what, code="unreadable-file", where=source[:200], hint=hint)
    return OneFile(path)


class Server(FetcherInterface):  # type: ignore[misc, unused-ignore]  # without tuf it is Any
    """A server, asked as all others: proxies and certificates come from the environment."""

    def __init__(self) -> None:
        self._asking = asking.session()
        self._open: list[asking.Answer] = []

    def close(self) -> None:
        """Close the connections, also of what was not read to its end."""
        for answer in self._open:
            answer.close()
        self._asking.close()

    def _fetch(self, url: str) -> Iterator[bytes]:
        try:
            answer = asking.ask(self._asking, url, {"Accept-Encoding": "identity"}, TIMEOUT)
        except asking.TransferError as exc:
            if exc.status:
                raise DownloadHTTPError(exc.message, exc.status) from exc
            raise DownloadError(exc.message) from exc
        except asking.BrokenError as exc:
            raise DownloadError(str(exc)) from exc
        self._open = [answer]
        return self._chunks(answer)

    @staticmethod
    def _chunks(answer: asking.Answer) -> Iterator[bytes]:
        end = time.monotonic() + LONGEST
        try:
            for chunk in pieces(answer):
                if time.monotonic() > end:
                    msg = f"the server took more than {LONGEST:.0f} s for one file"
                    raise SlowRetrievalError(msg)
                yield chunk
        except asking.BrokenError as exc:
            raise DownloadError(str(exc)) from exc


class Folder(FetcherInterface):  # type: ignore[misc, unused-ignore]
    """A copy of the publisher's folder on this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _fetch(self, url: str) -> Iterator[bytes]:
        path = self._path / _inside(url)
        if not path.is_file():
            raise _missing(url)
        return _pieces(path)


class OneFile(FetcherInterface):  # type: ignore[misc, unused-ignore]
    """A zip archive with the publisher's folder."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _fetch(self, url: str) -> Iterator[bytes]:
        try:
            archive = zipfile.ZipFile(self._path)
            entry = archive.open(_inside(url))
        except KeyError as exc:
            raise _missing(url) from exc
        return self._chunks(archive, entry)

    @staticmethod
    def _chunks(archive: zipfile.ZipFile, entry: IO[bytes]) -> Iterator[bytes]:
        try:
            with archive, entry:
                while chunk := entry.read(CHUNK):
                    yield chunk
        except (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as exc:
            msg = f"the file is damaged: {exc}"
            raise DownloadError(msg) from exc


def _pieces(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(CHUNK):
                yield chunk
    except OSError as exc:
        raise DownloadError(str(exc)) from exc


def _inside(url: str) -> str:
    return url.removeprefix(f"{_BASE}/")


def _missing(url: str) -> DownloadHTTPError:
    return DownloadHTTPError(f"{_inside(url)} is missing", 404)
