"""What a package index says of a project, and the parts of its wheels, read without downloading them whole."""

from __future__ import annotations

import io
import re
import sys
import zipfile
from email.parser import HeaderParser
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import requests

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from package_index import index_address

_JSON = "application/vnd.pypi.simple.v1+json"
_NAME = re.compile(
    r"(?P<project>[^-]+)-(?P<version>[^-]+)(?:-\d[^-]*)?-(?P<python>[^-]+)-(?P<abi>[^-]+)-(?P<tags>[^-]+)\.whl"
)
_PLATFORMS = {
    "linux-x86_64": re.compile(r"(?<!musl)linux.*x86_64"),
    "linux-aarch64": re.compile(r"(?<!musl)linux.*aarch64"),
    "windows-x86_64": re.compile(r"win_amd64"),
    "windows-aarch64": re.compile(r"win_arm64"),
    "any": re.compile(r"^any$"),
}


class WheelFile(NamedTuple):
    """One wheel of an index. ``python`` and ``abi`` are its tags, ``platform`` one of ours ("" another)."""

    project: str
    version: str
    python: str
    abi: str
    platform: str
    glibc: str
    file: str
    url: str
    sha256: str
    size: int
    date: str
    requires_python: str
    is_yanked: bool

    @property
    def interpreter(self) -> str:
        """The version of CPython that it is for ("3.12"); "" where it is for several."""
        found = re.fullmatch(r"cp(\d)(\d+)", self.python)
        return f"{found[1]}.{found[2]}" if found is not None and self.abi != "abi3" else ""

    @property
    def floor(self) -> str:
        """The oldest CPython of a wheel for several ("3.8"); "" where its tag names none."""
        found = re.fullmatch(r"cp(\d)(\d+)", self.python)
        return f"{found[1]}.{found[2]}" if found is not None and self.abi == "abi3" else ""


@lru_cache(maxsize=1)
def _index() -> str:
    return index_address()


def wheels(session: requests.Session, project: str) -> list[WheelFile]:
    """The wheels of a project for CPython with its lock, in the order of the index."""
    answer = session.get(f"{_index()}/{project}/", headers={"Accept": _JSON}, timeout=60)
    answer.raise_for_status()
    return [found for one in answer.json()["files"] if (found := _wheel(project, one)) is not None]


def _wheel(project: str, entry: dict[str, Any]) -> WheelFile | None:
    name = _NAME.fullmatch(entry["filename"])
    if name is None or name["abi"].endswith("t") or name["python"].startswith("pp"):
        return None
    platform = next((key for key, tag in _PLATFORMS.items() if tag.search(name["tags"])), "")
    return WheelFile(
        project=project,
        version=name["version"],
        python=name["python"],
        abi=name["abi"],
        platform=platform,
        glibc=_glibc(name["tags"]) if platform.startswith("linux") else "",
        file=entry["filename"],
        url=entry["url"],
        sha256=entry["hashes"]["sha256"],
        size=int(entry.get("size") or 0),
        date=entry.get("upload-time", "")[:10],
        requires_python=entry.get("requires-python") or "",
        is_yanked=bool(entry.get("yanked")),
    )


def _glibc(tags: str) -> str:
    """The oldest C library that the tags of a wheel allow."""
    found = [(int(major), int(minor)) for major, minor in re.findall(r"manylinux_(\d+)_(\d+)_", tags)]
    old = {"manylinux1_": (2, 5), "manylinux2010_": (2, 12), "manylinux2014_": (2, 17)}
    found += [number for tag, number in old.items() if tag in tags]
    return ".".join(map(str, min(found))) if found else ""


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
