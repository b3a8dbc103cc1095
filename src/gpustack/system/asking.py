"""One request to a file server: the response after redirects, and what its headers say, however malformed.

The only importer of requests. Proxies, certificates (``REQUESTS_CA_BUNDLE``) and passwords (``.netrc``) come from the
environment, as requests has them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urljoin, urlsplit

from gpustack.errors import GpustackError

if TYPE_CHECKING:
    import requests

Asking: TypeAlias = "requests.Session"
Answer: TypeAlias = "requests.Response"

REDIRECTS = 10
"""The most redirects in a row."""

_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Status codes after which a retry makes sense."""

_MOST_DIGITS = 18
"""Digits of a number of bytes or seconds; more is nonsense, and Python itself refuses thousands."""


class TransferError(GpustackError):
    """A file cannot be downloaded, or is not the requested one; nothing usable remains of it.

    ``status`` is that of the server's answer if it refused, else 0.
    """

    code = "download-failed"
    status = 0


class BrokenError(Exception):
    """A failed attempt that a retry may fix; ``pause`` is in seconds, as the server requested."""

    def __init__(self, message: str, pause: float = 0.0) -> None:
        super().__init__(message)
        self.pause = pause


class RangeError(BrokenError):
    """The server has no bytes after those already received."""


def session() -> Asking:
    """The session that keeps connections between attempts."""
    import requests  # noqa: PLC0415 (a third of a second that only downloads need)

    from gpustack import __version__  # noqa: PLC0415

    made = requests.Session()
    made.headers["User-Agent"] = f"gpustack/{__version__}"
    # requests would parse the target of a redirect and fail; redirects are followed here.
    made.get_redirect_target = lambda _answer: None  # type: ignore[assignment]
    return made


def ask(asking: Asking, address: str, headers: dict[str, str], timeout: tuple[float, float]) -> Answer:
    """Return the response, if its status means a body; ``timeout`` is for the connection and each read, in seconds.

    Raises BrokenError if a retry makes sense, and TransferError if it does not.
    """
    url = address
    for _ in range(REDIRECTS):
        answer = _one(asking, url, headers, timeout, is_first=url == address)
        if not answer.is_redirect:
            return _usable(answer, address)
        answer.close()
        try:
            url = urljoin(url, answer.headers["Location"])
            scheme = urlsplit(url).scheme
        except ValueError as exc:
            raise BrokenError(_unusable(answer.headers["Location"])) from exc
        if scheme != "https":
            msg = f"the server redirects to {hide_credentials(url)}, which is not https"
            raise TransferError(msg, code="insecure-address", where=hide_credentials(address), hint=_HINT_MIRROR)
    msg = f"the server redirects more than {REDIRECTS} times"
    raise TransferError(msg, code="insecure-address", where=hide_credentials(address), hint=_HINT_MIRROR)


def _one(asking: Asking, url: str, headers: dict[str, str], timeout: tuple[float, float], *, is_first: bool) -> Answer:
    import requests  # noqa: PLC0415
    from urllib3.exceptions import HTTPError, LocationValueError  # noqa: PLC0415 (comes with requests)

    invalid = (requests.exceptions.InvalidURL, LocationValueError, UnicodeError)
    try:
        return asking.get(url, headers=headers, stream=True, allow_redirects=False, timeout=timeout)
    except requests.exceptions.SSLError as exc:
        msg = f"the server's certificate is not trusted: {cause(exc)}"
        raise TransferError(msg, code="certificate-refused", where=hide_credentials(url), hint=_HINT_TLS) from exc
    except requests.exceptions.ProxyError as exc:
        if "failed: 407 " not in cause(exc):  # as http.client words it
            raise BrokenError(cause(exc)) from exc
        msg = "the proxy requires a name and a password, or rejects those it received"
        raise TransferError(msg, code="proxy-refused", where=hide_credentials(url), hint=_HINT_PROXY) from exc
    except (ValueError, HTTPError, requests.exceptions.RequestException) as exc:
        # ValueError: requests passes on what libraries raise about invalid hosts, ports and headers.
        if not isinstance(exc, invalid):
            raise BrokenError(cause(exc)) from exc
        if not is_first:
            raise BrokenError(_unusable(url)) from exc
        msg = f"is no address: {cause(exc)}"
        hint = "correct the address, or use a mirror: --mirror FROM=TO"
        raise TransferError(msg, code="invalid-address", where=hide_credentials(url), hint=hint) from exc


def _unusable(url: str) -> str:
    return f"the server redirects to {_cut(hide_credentials(url))}, which is not an address"


def _usable(answer: Answer, address: str) -> Answer:
    code = answer.status_code
    if code in {200, 206}:
        return answer
    answer.close()
    said = f"the server answered {code} {answer.reason or ''}".rstrip()
    if code == 416:
        raise RangeError(said)
    if code in _AGAIN:
        pause = _number(answer.headers.get("Retry-After", ""))
        raise BrokenError(said, pause=float(pause or 0))
    hint = _HINT_GONE if code in {403, 404, 410} else _HINT_PROXY if code == 407 else _HINT_MIRROR
    refusal = TransferError(said, code="download-failed", where=hide_credentials(address), hint=hint)
    refusal.status = code
    raise refusal


def length_of(answer: Answer) -> int | None:
    """The length of a complete response in bytes; None if the server does not say. Raises BrokenError."""
    text = answer.headers.get("Content-Length")
    if text is None:
        return None
    values = {_number(one.strip()) for one in text.split(",")}
    found = values.pop()
    if values or found is None:
        msg = f"the server sent a Content-Length that is not a number: {_cut(text)}"
        raise BrokenError(msg)
    return found


def total_of(answer: Answer, start: int) -> int | None:
    """The length of the whole file of which a part was sent; None if the server does not say.

    Raises BrokenError if the part does not begin at ``start``.
    """
    found = re.fullmatch(r"bytes ([0-9]+)-[0-9]+/([0-9]+|\*)", answer.headers.get("Content-Range", ""))
    if found is None or _number(found[1]) != start or (found[2] != "*" and _number(found[2]) is None):
        msg = "the server sent another part of the file than requested"
        raise BrokenError(msg)
    return None if found[2] == "*" else int(found[2])


def validator_of(answer: Answer) -> str:
    """The validator that proves a later part to be of the same file, or ""."""
    tag = answer.headers.get("ETag", "")
    # A weak tag does not promise equal bytes, so it cannot validate a range.
    found = tag if tag and not tag.startswith("W/") else answer.headers.get("Last-Modified", "")
    # It is sent back unchanged, so it has to be plain text.
    return found if found.isascii() and found.isprintable() else ""


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(f"[0-9]{{1,{_MOST_DIGITS}}}", text) else None


def hide_credentials(url: str) -> str:
    """An address for messages: without name and password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _cut(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:100]}..."


def cause(exc: BaseException) -> str:
    """The innermost cause of a chain of library errors, in one short line."""
    inner: BaseException = exc
    while True:
        reason = getattr(inner, "reason", None)
        nested = [reason, *inner.args, inner.__cause__, inner.__context__]
        following = next((one for one in nested if isinstance(one, BaseException) and one is not inner), None)
        if following is None:
            break
        inner = following
    if isinstance(inner, TimeoutError):
        return "no answer in time"
    if "IncompleteRead" in (type(inner).__name__, *str(inner).split("(", 1)):
        return "the connection ended before the file did"
    text = (inner.strerror if isinstance(inner, OSError) else None) or str(inner) or type(inner).__name__
    return " ".join(re.sub(r"<[^>]*>:? ?", "", text).split())[:200]


_HINT_GONE = "the publisher or the mirror no longer has it or denies access; use another mirror: --mirror FROM=TO"
_HINT_MIRROR = "try again later, or through a mirror: --mirror FROM=TO"
_HINT_PROXY = "give the proxy's name and password: https_proxy=http://NAME:PASSWORD@HOST:PORT"
_HINT_TLS = "set REQUESTS_CA_BUNDLE for a private certificate authority; a wrong clock also makes certificates invalid"
