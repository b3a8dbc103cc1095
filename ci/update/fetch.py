"""The only part that talks to servers: one body for one address, over HTTPS, conditional, and limited in size."""

from __future__ import annotations

import datetime as dt
import zlib
from urllib.parse import urlsplit

import requests
import urllib3

from update.record import Body, MissingError, refuse

LARGEST = 64 << 20
"""The most bytes of a body, unpacked; the largest index of the vendor has half of that."""
SECONDS = (10.0, 60.0)
"""How long to wait for a connection, and for each part of an answer."""
JSON_OF_THE_INDEX = "application/vnd.pypi.simple.v1+json"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_KEPT = ("etag", "last-modified", "content-type", "date")
_CHUNK = 1 << 16


def fetch(address: str, known: Body | None = None, *, limit: int = LARGEST) -> Body:
    """The body at an address; ``known`` itself if the server says that it has not changed.

    Raises SourceError; MissingError if there is nothing at the address.
    """
    parts = urlsplit(address)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise refuse(address, "is not https")
    headers = {"Accept-Encoding": "gzip", "Accept": f"{JSON_OF_THE_INDEX}, */*;q=0.1"}
    if known is not None:
        named = {"If-None-Match": "etag", "If-Modified-Since": "last-modified"}
        headers |= {name: known.headers[value] for name, value in named.items() if value in known.headers}
    try:
        with requests.get(address, headers=headers, timeout=SECONDS, stream=True, allow_redirects=False) as answer:
            if answer.status_code == requests.codes.not_modified and known is not None:
                return known
            if answer.status_code == requests.codes.not_found:
                raise MissingError(*refuse(address, "the server answers 404").args)
            if answer.status_code != requests.codes.ok:
                raise refuse(address, f"the server answers {answer.status_code}")
            data = _content(answer, address, limit)
            kept = {name: answer.headers[name] for name in _KEPT if name in answer.headers}
    except requests.RequestException as exc:
        raise refuse(address, f"cannot be read: {exc}") from exc
    today = dt.datetime.now(tz=dt.timezone.utc).date().isoformat()
    return Body(address, today, data, kept)


def _content(answer: requests.Response, address: str, limit: int) -> bytes:
    """The whole body, unpacked no further than the limit."""
    is_packed = answer.headers.get("Content-Encoding", "") == "gzip"
    unpacker = zlib.decompressobj(31) if is_packed else None
    found, received = bytearray(), 0
    try:
        for chunk in iter(lambda: answer.raw.read(_CHUNK, decode_content=False), b""):
            received += len(chunk)
            found += unpacker.decompress(chunk, limit + 1 - len(found)) if unpacker else chunk
            if len(found) > limit:
                raise refuse(address, f"is larger than {limit} bytes")
    except zlib.error as exc:
        raise refuse(address, f"is not packed as the server says: {exc}") from exc
    except (OSError, urllib3.exceptions.HTTPError) as exc:
        raise refuse(address, f"breaks off: {exc}") from exc
    length = answer.headers.get("Content-Length", "")
    if (length.isdigit() and int(length) != received) or (unpacker and not unpacker.eof):
        raise refuse(address, f"breaks off after {received} bytes")
    return bytes(found)
