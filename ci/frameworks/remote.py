"""Parts of the wheels of a package index, read without downloading them whole."""

from __future__ import annotations

import io
import zipfile
from email.parser import HeaderParser
from functools import lru_cache
from typing import Any

import requests

from package_index import index_address
from update.fetch import fetch
from update.record import Body
from update.sources.index import WheelFile


@lru_cache(maxsize=1)
def _index() -> str:
    return index_address()


def page(project: str) -> Body:
    """The page of a project."""
    return fetch(f"{_index()}/{project}/")


def metadata(session: requests.Session, wheel: WheelFile) -> list[str]:
    """The requirements that a wheel states, from the index's copy of its metadata (PEP 658), else from inside."""
    answer = session.get(f"{wheel.url}.metadata", timeout=60)
    if answer.status_code == requests.codes.ok:
        text = answer.text
    else:
        archive = opened(session, wheel.url)
        text = archive.read(next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))).decode()
    return HeaderParser().parsestr(text).get_all("Requires-Dist") or []


def opened(session: requests.Session, url: str) -> zipfile.ZipFile:
    """A wheel of a server that answers range requests, of which only what is read is downloaded."""
    return zipfile.ZipFile(io.BufferedReader(_Remote(session, url), buffer_size=1 << 22))


class _Remote(io.RawIOBase):
    """A file of a web server, read by range requests."""

    def __init__(self, session: requests.Session, url: str) -> None:
        self._session, self._url, self._place = session, url, 0
        head = self._ask("bytes=-65536")
        self._size = int(head.headers["content-range"].rpartition("/")[2])
        self._end = head.content

    def _ask(self, span: str) -> requests.Response:
        answer = self._session.get(self._url, headers={"Range": span, "Accept-Encoding": "identity"}, timeout=180)
        if answer.status_code != requests.codes.partial_content:
            msg = f"{self._url}: the server answers {answer.status_code} to a range request"
            raise OSError(msg)
        return answer

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        return self._place

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 (a buffer has no name before Python 3.12)
        wanted = min(len(buffer), self._size - self._place)
        if wanted <= 0:
            return 0
        start = self._size - len(self._end)
        if self._place >= start:
            found = self._end[self._place - start :][:wanted]
        else:
            found = self._ask(f"bytes={self._place}-{self._place + wanted - 1}").content
        buffer[: len(found)] = found
        self._place += len(found)
        return len(found)
