"""Downloads over https: resumed after any break, retried with patience, hashed while they stream.

The only importer of requests. Proxies, certificates (``REQUESTS_CA_BUNDLE``) and passwords (``.netrc``) come from the
environment, as requests has them.
"""

from __future__ import annotations

import errno
import json
import re
import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from msgspec import Struct

from gpustack.errors import GpustackError
from gpustack.system.files import write_atomically
from gpustack.system.hashed import CHUNK, HashedFile

if TYPE_CHECKING:
    import requests

Report = Callable[[int, int | None], None]
"""Told how many bytes are there, and how many there will be (None: not known yet)."""

_REDIRECTS = 10
_LONGEST_PAUSE = 30.0
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers after which asking again makes sense."""


class TransferError(GpustackError):
    """A file could not be had, or is not the one that was asked for. Nothing of it is left where it could be used."""

    code = "download"


class Patience(Struct, frozen=True, kw_only=True):
    """How long to try: ``attempts`` in a row that bring no byte, the first ``pause`` between two (it doubles).

    ``connect`` and ``silence`` are seconds until a connection stands and between two pieces of it.
    """

    attempts: int = 5
    pause: float = 0.5
    connect: float = 15.0
    silence: float = 30.0


class Target(Struct, frozen=True, kw_only=True):
    """One file of the net: ``sha256`` is empty and ``size`` None where nobody published them.

    An address of plain http (a mirror of the user's own, a distribution's archive) is for files with a known sum only;
    a redirect to one is never followed.
    """

    url: str
    sha256: str = ""
    size: int | None = None


class Received(Struct, frozen=True, kw_only=True):
    """What came."""

    sha256: str
    size: int


class _BrokenError(Exception):
    """The connection or the answer failed in a way that another attempt may mend."""

    def __init__(self, message: str, pause: float = 0.0) -> None:
        super().__init__(message)
        self.pause = pause


def download(
    target: Target,
    part: Path,
    *,
    patience: Patience | None = None,
    report: Report | None = None,
    stop: Event | None = None,
) -> Received:
    """Fetch ``target`` into the file ``part``, going on behind what it has already where the sum can vouch for it.

    Raises TransferError: then ``part`` is a prefix to go on from later, or gone. One caller at a time for one ``part``.
    """
    return _Transfer(target, part, patience or Patience(), report or _unheard, stop or Event()).run()


class _Transfer:
    """One file on its way."""

    def __init__(self, target: Target, part: Path, patience: Patience, report: Report, stop: Event) -> None:
        self.target = target
        self.address = shown(target.url)
        self.part = part
        self.patience = patience
        self.report = report
        self.stop = stop
        self.notes = part.with_name(f"{part.name}.json")
        self.total = target.size
        self.is_pieced = False
        self.has_gained = False
        self.validator = ""

    def run(self) -> Received:
        _demand_safe(self.target)
        try:
            self.file = HashedFile(self.part)
            with closing(self.file):
                return self._run()
        except OSError as exc:
            raise self._disk_error(exc) from exc

    def _run(self) -> Received:
        if self.target.sha256:
            self.file.take_over()
            self.is_pieced = self.file.size > 0
            self.validator = self._recorded()
        else:
            self.file.restart()
        while True:
            self._receive_all()
            got = Received(sha256=self.file.sha256(), size=self.file.size)
            if self.target.sha256 in {"", got.sha256}:
                self.notes.unlink(missing_ok=True)
                return got
            if not self.is_pieced:
                self._drop()
                msg = (
                    f"is not the file that was planned: its sha256 is {got.sha256}, and should be {self.target.sha256}"
                )
                raise TransferError(msg, where=self.address, hint=_HINT_BYTES)
            # Some piece of it was bad, and which one nobody knows: once more, in one piece.
            self._restart()

    def _receive_all(self) -> None:
        """Attempts until the file is whole."""
        if self.target.size is not None and self.file.size > self.target.size:
            self._restart()
        if self.is_pieced and self.file.size == self.target.size:
            return None
        failures = 0
        with _session() as session:
            while True:
                self.has_gained = False
                try:
                    return self._receive(session)
                except _BrokenError as exc:
                    failures = 1 if self.has_gained else failures + 1
                    if failures >= self.patience.attempts:
                        raise self._gave_up(exc) from exc
                    pause = exc.pause or self.patience.pause * 2 ** (failures - 1)
                    if self.stop.wait(min(pause, _LONGEST_PAUSE)):
                        raise self._stopped() from exc

    def _receive(self, session: requests.Session) -> None:
        """One attempt. Raises _BrokenError where another may go on."""
        if self.file.size and not (self.target.sha256 or self.validator):
            self._restart()
        headers = {"Accept-Encoding": "identity"}
        if self.file.size:
            headers["Range"] = f"bytes={self.file.size}-"
            if self.validator:
                headers["If-Range"] = self.validator
        with closing(self._ask(session, headers)) as answer:
            self._place(answer)
            self._check_room()
            self.report(self.file.size, self.total)
            self._stream(answer)
        if self.total is not None and self.file.size < self.total:
            msg = f"the connection ended after {self.file.size:,} of {self.total:,} bytes"
            raise _BrokenError(msg)

    def _ask(self, session: requests.Session, headers: dict[str, str]) -> requests.Response:
        """The answer, redirects followed, with a status that brings bytes."""
        import requests  # noqa: PLC0415 (a third of a second that only downloads need)

        url = self.target.url
        for _ in range(_REDIRECTS):
            try:
                answer = session.get(
                    url,
                    headers=headers,
                    stream=True,
                    allow_redirects=False,
                    timeout=(self.patience.connect, self.patience.silence),
                )
            except requests.exceptions.SSLError as exc:
                msg = f"the server's certificate is not trusted: {_cause(exc)}"
                raise TransferError(msg, where=shown(url), hint=_HINT_TLS) from exc
            except requests.exceptions.ProxyError as exc:
                if "407" not in str(exc):
                    raise _BrokenError(_cause(exc)) from exc
                msg = "the proxy wants a name and a password, or does not take those that it got"
                raise TransferError(msg, where=shown(url), hint=_HINT_PROXY) from exc
            except requests.exceptions.InvalidURL as exc:
                msg = f"is no address: {exc}"
                raise TransferError(msg, where=shown(url)) from exc
            except requests.exceptions.RequestException as exc:
                raise _BrokenError(_cause(exc)) from exc
            if not answer.is_redirect:
                return self._usable(answer)
            answer.close()
            url = urljoin(url, answer.headers["Location"])
            if urlsplit(url).scheme != "https":
                msg = f"the server redirects to {url}, which is not https"
                raise TransferError(msg, where=self.address, hint=_HINT_MIRROR)
        msg = f"the server redirects more than {_REDIRECTS} times"
        raise TransferError(msg, where=self.address, hint=_HINT_MIRROR)

    def _usable(self, answer: requests.Response) -> requests.Response:
        code = answer.status_code
        if code in {200, 206}:
            return answer
        answer.close()
        said = f"the server answered {code} {answer.reason or ''}".rstrip()
        if code == 416 and self.file.size:
            self._restart()
            raise _BrokenError(said)
        if code in _AGAIN:
            raise _BrokenError(said, pause=_seconds(answer.headers.get("Retry-After", "")))
        hint = _HINT_GONE if code in {403, 404, 410} else _HINT_PROXY if code == 407 else _HINT_MIRROR
        raise TransferError(said, where=self.address, hint=hint)

    def _place(self, answer: requests.Response) -> None:
        """Go on, or begin anew, as the answer says; refuse what has another size than was planned."""
        if answer.status_code == 206:
            found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range", ""))
            if found is None or int(found[1]) != self.file.size:
                self._restart()
                msg = "the server sent another part of the file than was asked for"
                raise _BrokenError(msg)
            total = None if found[2] == "*" else int(found[2])
            self.is_pieced = True
        else:
            if self.file.size:
                self._restart()
            length = answer.headers.get("Content-Length", "")
            total = int(length) if length.isdigit() else None
        if self.target.size is not None and total is not None and total != self.target.size:
            self._drop()
            msg = f"has {total:,} bytes on the server, and {self.target.size:,} in the plan"
            raise TransferError(msg, where=self.address, hint=_HINT_BYTES)
        self.total = self.target.size if total is None else total
        self._record(answer)

    def _stream(self, answer: requests.Response) -> None:
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 (comes with requests)

        while True:
            try:
                chunk = answer.raw.read(CHUNK, decode_content=False)
            except HTTPError as exc:
                raise _BrokenError(_cause(exc)) from exc
            if self.stop.is_set():
                raise self._stopped()
            if not chunk:
                return
            self.file.write(chunk)
            self.has_gained = True
            self.report(self.file.size, self.total)
            if self.total is not None and self.file.size > self.total:
                size = self.total
                self._drop()
                msg = f"is larger than the {size:,} bytes that were expected"
                raise TransferError(msg, where=self.address, hint=_HINT_BYTES)

    def _check_room(self) -> None:
        missing = (self.total or 0) - self.file.size
        free = shutil.disk_usage(self.part.parent).free
        if missing > free:
            msg = f"{missing / 2**20:,.0f} MiB are missing, and only {free / 2**20:,.0f} MiB are free"
            raise TransferError(msg, where=str(self.part.parent), hint=_HINT_ROOM)

    def _recorded(self) -> str:
        """The validator under which the first part of the file came from this very address."""
        with suppress(OSError, ValueError, AttributeError):
            noted = json.loads(self.notes.read_text(encoding="utf-8"))
            if noted.get("url") == self.target.url:
                return str(noted.get("validator", ""))
        return ""

    def _record(self, answer: requests.Response) -> None:
        tag = answer.headers.get("ETag", "")
        # A weak tag promises no equal bytes, so it cannot vouch for a range.
        validator = tag if tag and not tag.startswith("W/") else answer.headers.get("Last-Modified", "")
        if validator != self.validator or not self.notes.exists():
            self.validator = validator
            # Only its owner reads it: the address of a mirror may hold a password.
            notes = json.dumps({"url": self.target.url, "validator": validator})
            write_atomically(self.notes, notes, mode=0o600)

    def _restart(self) -> None:
        self.file.restart()
        self.is_pieced = False
        self.total = self.target.size
        self.validator = ""

    def _drop(self) -> None:
        self.file.restart()
        self.part.unlink(missing_ok=True)
        self.notes.unlink(missing_ok=True)

    def _stopped(self) -> TransferError:
        return TransferError("the download was stopped", where=self.address, hint=_HINT_GOES_ON)

    def _gave_up(self, exc: _BrokenError) -> TransferError:
        msg = f"{exc} ({self.patience.attempts} attempts brought nothing more)"
        return TransferError(msg, where=self.address, hint=_HINT_GOES_ON)

    def _disk_error(self, exc: OSError) -> TransferError:
        msg = f"cannot be written: {exc.strerror or exc}"
        full = exc.errno in {errno.ENOSPC, errno.EDQUOT}
        return TransferError(msg, where=str(self.part), hint=_HINT_ROOM if full else "another folder: GPUSTACK_CACHE")


_HINT_BYTES = (
    "nothing of it was kept; if a mirror or proxy is in between, its copy is bad; if the publisher replaced the file, "
    "plan again with newer facts"
)
_HINT_GOES_ON = "the same command goes on where this one stopped; behind a proxy, set https_proxy"
_HINT_GONE = "the publisher or the mirror has it no more, or not for you; a mirror that has it: --mirror FROM=TO"
_HINT_MIRROR = "try again later, or through a mirror: --mirror FROM=TO"
_HINT_PROXY = "give the proxy's name and password: https_proxy=http://NAME:PASSWORD@HOST:PORT"
_HINT_ROOM = "make room, or choose another folder with GPUSTACK_CACHE; the same command goes on where this one stopped"
_HINT_TLS = "a company's own authority is named by REQUESTS_CA_BUNDLE; a wrong clock makes certificates invalid too"


def _session() -> requests.Session:
    import requests  # noqa: PLC0415 (a third of a second that only downloads need)

    from gpustack import __version__  # noqa: PLC0415

    session = requests.Session()
    session.headers["User-Agent"] = f"gpustack/{__version__}"
    return session


def shown(url: str) -> str:
    """An address as messages have it: without name and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _demand_safe(target: Target) -> None:
    scheme = urlsplit(target.url).scheme
    if scheme == "https" or (scheme == "http" and target.sha256):
        return
    msg = "is not fetched: only https is, and http where the file's sum is known"
    raise TransferError(msg, where=shown(target.url), hint="name an https address")


def _seconds(text: str) -> float:
    """The pause that a server asks for; 0 where it names none, or a date."""
    return float(text) if text.isdigit() else 0.0


def _cause(exc: BaseException) -> str:
    """The innermost reason of a chain of library errors, in one short line."""
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
    text = (inner.strerror if isinstance(inner, OSError) else None) or str(inner) or type(inner).__name__
    return " ".join(re.sub(r"<[^>]*>:? ?", "", text).split())[:200]


def _unheard(_done: int, _total: int | None) -> None:
    """Nobody wants to know."""
