"""From the artifacts of a plan to verified files in the cache: in parallel, through the user's mirrors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Literal

from msgspec.structs import replace

from gpustack.errors import GpustackError, UsageError
from gpustack.install.options import Counter, Downloader, Progress
from gpustack.install.supply.cache import Cache, default_folder, has_sum, key_of
from gpustack.model.steps import Artifact
from gpustack.system.asking import TransferError
from gpustack.system.http import Patience, RemoteFile, download

PARALLEL = 4
"""Concurrent downloads: more gain nothing over one line, and each takes memory."""

KEY_BYTES = 2**20
"""More than any signing key of a package repository."""

Mirrors = dict[str, str]
"""Prefixes of addresses, and their replacements."""


def parse_mirrors(words: Iterable[str]) -> Mirrors:
    """Mirrors as FROM=TO, both prefixes of addresses. Raises UsageError."""
    found = {}
    for word in words:
        source, _, target = word.partition("=")
        if not source.startswith("https://") or not target.startswith(("https://", "http://")):
            msg = f"{word!r} is not FROM=TO with two address prefixes"
            hint = "for example --mirror https://developer.download.nvidia.com/=https://mirror.example/nvidia/"
            raise UsageError(msg, code="invalid-value", where="--mirror", hint=hint)
        found[source] = target
    return found


def environment_mirrors() -> Mirrors:
    """The mirrors of ``GPUSTACK_MIRRORS``: words FROM=TO."""
    return parse_mirrors(os.environ.get("GPUSTACK_MIRRORS", "").split())


def mirrored(url: str, mirrors: Mirrors) -> str:
    """``url`` through the mirror with the longest matching prefix."""
    source = max((one for one in mirrors if url.startswith(one)), key=len, default=None)
    return url if source is None else mirrors[source] + url[len(source) :]


def patience_of(min_speed: float | None) -> Patience:
    """The default patience, with the user's minimum speed in KiB a second (None: the default one)."""
    return Patience() if min_speed is None else Patience(speed=min_speed * 1024)


class Fetcher:
    """Downloads artifacts into the cache; the ``Downloader`` of installations with a network.

    May be called from several threads and processes at once. ``say`` receives a sentence when a wait begins.
    """

    def __init__(
        self,
        cache: Cache | None = None,
        *,
        mirrors: Mirrors | None = None,
        patience: Patience | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.cache = cache or Cache(default_folder())
        self.mirrors = environment_mirrors() if mirrors is None else mirrors
        self.patience = patience or Patience()
        self.say = say or (lambda _text: None)
        self.stop = Event()

    def __call__(self, artifact: Artifact, progress: Progress) -> Path:
        """The verified file of ``artifact`` in the cache. Raises GpustackError.

        A file without a published checksum is downloaded each time, and only over https: the plan says how it is
        trusted (a fingerprint, a signature, the publisher's host), and its own commands check that.
        """
        try:
            return self._take(artifact, progress) if artifact.own_path else self._bring(artifact, progress)
        except OSError as exc:
            msg = f"the cache cannot be used: {exc.strerror or exc}"
            hint = "choose another folder with GPUSTACK_CACHE"
            raise GpustackError(msg, code="cache-unusable", where=str(self.cache.folder), hint=hint) from exc

    def _take(self, artifact: Artifact, progress: Progress) -> Path:
        """The file that the user has downloaded, where it still is what was planned; else a copy in the cache."""
        path = Path(artifact.own_path)
        there = path if has_sum(path, artifact.sha256) else self.cache.find(artifact.sha256)
        if there is None:
            is_other = path.exists()
            msg = "is not the file that was planned: its sha256 is another" if is_other else "does not exist"
            code: Literal["checksum-mismatch", "unreadable-file"] = (
                "checksum-mismatch" if is_other else "unreadable-file"
            )
            hint = "plan again with --from, or put the file back that the plan was made of"
            raise GpustackError(msg, code=code, where=str(path), hint=hint)
        size = there.stat().st_size
        progress(size, size)
        return there

    def _bring(self, artifact: Artifact, progress: Progress) -> Path:
        key = key_of(artifact.url, artifact.sha256)
        with self.cache.locked(key, lambda: self.say(f"waiting for another process that fetches {name_of(artifact)}")):
            there = self.cache.find(artifact.sha256) if artifact.sha256 else None
            if there is not None:
                size = there.stat().st_size
                progress(size, size)
                return there
            url = mirrored(artifact.url, self.mirrors)
            target = RemoteFile(url=url, sha256=artifact.sha256, size=artifact.size)
            if artifact.fingerprint:
                target = replace(target, most=KEY_BYTES)
            part = self.cache.part(key)
            got = download(target, part, patience=self.patience, report=progress, stop=self.stop)
            return self.cache.publish(part, got.sha256)


def fetch_all(
    artifacts: Iterable[Artifact],
    get: Downloader,
    transfer: Counter,
    *,
    parallel: int = PARALLEL,
    check: Callable[[], None] = lambda: None,
) -> dict[Artifact, Path]:
    """Every artifact's verified file; ``transfer`` supplies each counter, ``check`` raises to stop.

    Raises GpustackError with everything that could not be downloaded. Complete files stay in the cache, so the next
    call continues.
    """
    wanted = list(dict.fromkeys(artifacts))
    waiting: SimpleQueue[Artifact] = SimpleQueue()
    for artifact in wanted:
        waiting.put(artifact)
    counters = {artifact: transfer(name_of(artifact), artifact.size) for artifact in wanted}
    found: dict[Artifact, Path] = {}
    faults: dict[Artifact, Exception] = {}

    def work() -> None:
        with suppress(Empty):
            while True:
                artifact = waiting.get_nowait()
                try:
                    found[artifact] = get(artifact, counters[artifact])
                except Exception as exc:  # noqa: BLE001 (raised again by the caller's thread)
                    faults[artifact] = exc

    # Daemons: an interrupt must not wait for a silent server.
    workers = [Thread(target=work, daemon=True) for _ in range(min(parallel, len(wanted)))]
    try:
        for worker in workers:
            worker.start()
        _wait(workers, check)
    except BaseException:
        if isinstance(get, Fetcher):
            get.stop.set()
        raise
    if faults:
        raise _together([faults[one] for one in wanted if one in faults])
    return {artifact: found[artifact] for artifact in wanted}


def _wait(workers: list[Thread], check: Callable[[], None]) -> None:
    for worker in workers:
        while worker.is_alive():
            worker.join(0.1)
            check()


def _together(faults: list[Exception]) -> Exception:
    """One error for all."""
    told = [one for one in faults if isinstance(one, GpustackError)]
    if len(told) < len(faults) or len(faults) == 1:
        return next((one for one in faults if one not in told), faults[0])
    lines = [f"{one.where}: {one.message}" if one.where else one.message for one in told]
    hints = dict.fromkeys(one.hint for one in told if one.hint)
    msg = f"{len(told)} files could not be downloaded:\n" + "\n".join(lines)
    return TransferError(msg, code="download-failed", hint="\n".join(hints))


def name_of(artifact: Artifact) -> str:
    """The name of the file for people."""
    return artifact.path.rpartition("/")[2]
