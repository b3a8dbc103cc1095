"""Downloads over https: resumed after interruptions, retried within limits, hashed while they stream."""

from __future__ import annotations

import errno
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Event
from urllib.parse import urlsplit

from msgspec import Struct

from gpustack.system.asking import (
    Answer,
    Asking,
    BrokenError,
    RangeError,
    TransferError,
    ask,
    cause,
    hide_credentials,
    length_of,
    session,
    total_of,
    validator_of,
)
from gpustack.system.files import write_atomically
from gpustack.system.hashed import CHUNK, HashedFile

Report = Callable[[int, int | None], None]
"""Called with the bytes received so far and in total (None: unknown)."""

_LONGEST_PAUSE = 30.0
_WHOLES = 3
"""How often a file is downloaded from its beginning because its checksum was wrong after a resume."""

_KEPT_FREE = 256 * 2**20
"""Bytes of a file system that downloads leave free, or a twentieth of it if that is less."""


class Patience(Struct, frozen=True, kw_only=True):
    """How long to try: ``attempts`` in a row with less than ``gain`` new bytes, ``pause`` between (it doubles).

    ``connect`` and ``silence`` are the seconds to connect and between two reads. ``speed`` is the minimum of bytes per
    second, on average over ``window`` seconds of connected time (0: no minimum).
    """

    attempts: int = 5
    gain: int = 1024
    pause: float = 0.5
    connect: float = 15.0
    silence: float = 30.0
    speed: float = 1024.0
    window: float = 60.0


class RemoteFile(Struct, frozen=True, kw_only=True):
    """One file on a server; ``sha256`` is empty and ``size`` None if nobody published them.

    No more than ``most`` bytes are accepted if the size is unknown. Plain http (a mirror of the user's own, a
    distribution's archive) is only for files with a known checksum; a redirect to it is never followed.
    """

    url: str
    sha256: str = ""
    size: int | None = None
    most: int = 8 * 2**30


class Received(Struct, frozen=True, kw_only=True):
    """What was received."""

    sha256: str
    size: int


def download(
    target: RemoteFile,
    part: Path,
    *,
    patience: Patience | None = None,
    report: Report | None = None,
    stop: Event | None = None,
) -> Received:
    """Download ``target`` into the file ``part``, resuming after its content if a checksum can verify the result.

    Raises TransferError; ``part`` is then a prefix to resume from, or gone. Only one caller at a time per ``part``.
    """
    return _Transfer(target, part, patience or Patience(), report or _unheard, stop or Event()).run()


class _Pace:
    """The transfer rate, over the time in which a connection is up."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._began = 0.0
        self._spent = 0.0
        self._came = 0

    def begin(self) -> None:
        """A connection is up."""
        self._began = time.monotonic() - self._spent

    def end(self) -> None:
        """The connection has ended."""
        self._spent = time.monotonic() - self._began

    def is_enough(self, count: int) -> bool:
        """Whether the rate suffices, with ``count`` more bytes."""
        self._came += count
        now = time.monotonic()
        if now - self._began < self._patience.window:
            return True
        is_enough = self._came >= self._patience.speed * (now - self._began)
        self._began, self._came = now, 0
        return is_enough


class _Transfer:
    """One file in transfer."""

    def __init__(self, target: RemoteFile, part: Path, patience: Patience, report: Report, stop: Event) -> None:
        self.target = target
        self.address = hide_credentials(target.url)
        self.part = part
        self.patience = patience
        self.report = report
        self.stop = stop
        self.notes = part.with_name(f"{part.name}.json")
        self.total = target.size
        self.is_pieced = False
        self.reached = 0
        self.validator = ""
        self.pace = _Pace(patience)

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
        try:
            return self._receive_right()
        except BaseException:
            if not self.target.sha256:
                self._drop()  # nothing could verify it later
            raise

    def _receive_right(self) -> Received:
        wholes = 0
        while True:
            self._receive_all()
            wholes += 1
            got = Received(sha256=self.file.sha256(), size=self.file.size)
            if self.target.sha256 in {"", got.sha256}:
                self.notes.unlink(missing_ok=True)
                return got
            if not self.is_pieced or wholes == _WHOLES:
                self._drop()
                msg = (
                    f"is not the file that was planned: its sha256 is {got.sha256}, and should be {self.target.sha256}"
                )
                raise TransferError(msg, code="checksum-mismatch", where=self.address, hint=_HINT_BYTES)
            # Some piece of it was bad, and it is unknown which: once more, in one piece.
            self._restart()

    def _receive_all(self) -> None:
        """Retry until the file is complete."""
        if self.target.size is not None and self.file.size > self.target.size:
            self._restart()
        if self.is_pieced and self.file.size == self.target.size:
            return None
        failures, self.reached = 0, self.file.size
        with session() as asking:
            while True:
                before = self.reached
                try:
                    return self._receive(asking)
                except BrokenError as exc:
                    failures = failures + 1 if self.reached < before + self.patience.gain else 1
                    if failures >= self.patience.attempts:
                        raise self._gave_up(exc) from exc
                    pause = exc.pause or self.patience.pause * 2 ** (failures - 1)
                    if self.stop.wait(min(pause, _LONGEST_PAUSE)):
                        raise self._stopped() from exc

    def _receive(self, asking: Asking) -> None:
        """One attempt. Raises BrokenError if another may continue."""
        if self.file.size and not (self.target.sha256 or self.validator):
            self._restart()
        headers = {"Accept-Encoding": "identity"}
        if self.file.size:
            headers["Range"] = f"bytes={self.file.size}-"
            if self.validator:
                headers["If-Range"] = self.validator
        try:
            answer = ask(asking, self.target.url, headers, (self.patience.connect, self.patience.silence))
        except RangeError:
            self._restart()
            raise
        with closing(answer):
            self._place(answer)
            self._demand_room((self.total or 0) - self.file.size)
            self.report(self.file.size, self.total)
            self._stream(answer)
        if self.total is not None and self.file.size < self.total:
            msg = f"the connection ended after {self.file.size:,} of {self.total:,} bytes"
            raise BrokenError(msg)
        if not self.file.size and self.target.size is None:
            # Also what a connection looks like that broke before the end of the head.
            msg = "the server sent an empty file"
            raise BrokenError(msg)

    def _place(self, answer: Answer) -> None:
        """Resume or restart, as the response says; refuse a file whose size differs from the plan."""
        if answer.status_code == 206:
            try:
                total = total_of(answer, self.file.size)
            except BrokenError:
                self._restart()
                raise
            self.is_pieced = True
        else:
            if self.file.size:
                self._restart()
            total = length_of(answer)
        if self.target.size is not None and total is not None and total != self.target.size:
            self._drop()
            msg = f"has {total:,} bytes on the server, and {self.target.size:,} in the plan"
            raise TransferError(msg, code="size-mismatch", where=self.address, hint=_HINT_BYTES)
        self.total = self.target.size if total is None else total
        self._demand_size(self.total or 0)
        self._record(answer)

    def _stream(self, answer: Answer) -> None:
        self.pace.begin()
        try:
            for piece in pieces(answer):
                if self.stop.is_set():
                    raise self._stopped()
                self._demand_room(len(piece))
                self.file.write(piece)
                self.reached = max(self.reached, self.file.size)
                self.report(self.file.size, self.total)
                self._demand_size(self.file.size)
                if not self.pace.is_enough(len(piece)):
                    raise self._too_slow()
        finally:
            self.pace.end()

    def _demand_size(self, size: int) -> None:
        if self.total is not None and size > self.total:
            self._drop()
            msg = f"is larger than the {self.total:,} bytes that were expected"
            raise TransferError(msg, code="size-mismatch", where=self.address, hint=_HINT_BYTES)
        if self.target.size is None and size > self.target.most:
            self._drop()
            msg = f"is larger than the {self.target.most:,} bytes that are accepted where no size is published"
            raise TransferError(msg, code="size-mismatch", where=self.address, hint=_HINT_BYTES)

    def _demand_room(self, missing: int) -> None:
        disk = shutil.disk_usage(self.part.parent)
        kept = min(_KEPT_FREE, disk.total // 20)
        free = max(0, disk.free - kept)
        if missing > free:
            needed, there, left = (f"{one / 2**20:,.1f} MiB" for one in (missing, free, kept))
            msg = f"{needed} more are needed, and only {there} may be used: {left} of the file system are kept free"
            raise TransferError(msg, code="disk-full", where=str(self.part.parent), hint=_HINT_ROOM)

    def _recorded(self) -> str:
        """The validator of the first part of the file, if that came from this very address."""
        with suppress(OSError, ValueError, AttributeError):
            noted = json.loads(self.notes.read_text(encoding="utf-8"))
            if noted.get("url") == self.target.url:
                return str(noted.get("validator", ""))
        return ""

    def _record(self, answer: Answer) -> None:
        validator = validator_of(answer)
        if validator != self.validator or not self.notes.exists():
            self.validator = validator
            # Readable by its owner only: the address of a mirror may contain a password.
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
        return TransferError(
            "the download was stopped", code="download-stopped", where=self.address, hint=_HINT_GOES_ON
        )

    def _gave_up(self, exc: BrokenError) -> TransferError:
        msg = f"{exc} ({self.patience.attempts} attempts made no progress)"
        return TransferError(msg, code="download-failed", where=self.address, hint=_HINT_GOES_ON)

    def _too_slow(self) -> TransferError:
        least = f"{self.patience.speed / 1024:,.3g} KiB a second"
        msg = f"less than {least} came for {self.patience.window:g} seconds"
        return TransferError(msg, code="download-failed", where=self.address, hint=_HINT_SLOW)

    def _disk_error(self, exc: OSError) -> TransferError:
        msg = f"cannot be written: {exc.strerror or exc}"
        full = exc.errno in {errno.ENOSPC, errno.EDQUOT}
        return TransferError(
            msg,
            code="disk-full" if full else "not-writable",
            where=str(self.part),
            hint=_HINT_ROOM if full else "another folder: GPUSTACK_CACHE",
        )


def pieces(answer: Answer) -> Iterator[bytes]:
    """The bytes of a response in large pieces; in smaller ones each second if they come slowly.

    Raises BrokenError if the connection breaks, after everything that came before.
    """
    from urllib3.exceptions import HTTPError  # noqa: PLC0415 (comes with requests)

    gathered = bytearray()
    fault: Exception | None = None
    since = time.monotonic()
    is_over = False
    while not is_over:
        try:
            piece = answer.raw.read1(CHUNK, decode_content=False)
        except (HTTPError, ValueError) as exc:  # ValueError: a chunk without a length
            piece, fault = b"", exc
        gathered += piece
        is_over = not piece
        now = time.monotonic()
        if gathered and (is_over or len(gathered) >= CHUNK or now - since >= _LATEST):
            yield bytes(gathered)
            gathered.clear()
            since = now
    if fault is not None:
        raise BrokenError(cause(fault)) from fault


_LATEST = 1.0
"""Seconds after which received bytes are passed on, however few."""

_HINT_BYTES = (
    "nothing of it was kept; if a mirror or proxy is in between, its copy is bad; if the publisher replaced the file, "
    "plan again with newer facts"
)
_HINT_GOES_ON = "run the same command again to continue where this one stopped; behind a proxy, set https_proxy"
_HINT_ROOM = (
    "make room, or choose another folder with GPUSTACK_CACHE; the same command continues where this one stopped"
)
_HINT_SLOW = "try again later, through a mirror: --mirror FROM=TO, or with more patience: --min-speed KIB"


def _demand_safe(target: RemoteFile) -> None:
    try:
        scheme = urlsplit(target.url).scheme
    except ValueError as exc:
        msg = f"is no address: {exc}"
        raise TransferError(msg, code="invalid-address", where=target.url, hint="name an https address") from exc
    if scheme == "https" or (scheme == "http" and target.sha256):
        return
    msg = "is not downloaded: http is accepted only where the file's checksum is known"
    raise TransferError(msg, code="invalid-address", where=hide_credentials(target.url), hint="name an https address")


def _unheard(_done: int, _total: int | None) -> None:
    """A listener that ignores everything."""
