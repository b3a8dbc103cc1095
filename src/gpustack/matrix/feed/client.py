"""``gpustack matrix update``: the workflow of The Update Framework with python-tuf's client, then a new generation.

Nothing of an update is used before all of it has been verified. The root of trust is the one that the user names, else
that of the wheel, else the one that was named before.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct
from tuf.api.exceptions import DownloadError, DownloadLengthMismatchError, RepositoryError
from tuf.api.metadata import Metadata, TargetFile, Timestamp
from tuf.ngclient import Updater, UpdaterConfig
from tuf.ngclient.fetcher import FetcherInterface

from gpustack import resources
from gpustack.errors import GpustackError, UsageError
from gpustack.matrix.age import OldFactsError
from gpustack.matrix.feed import bundle as bundles
from gpustack.matrix.feed.generations import Origin, add, kept, only_writer, origin_of, renew, switch, unwritable
from gpustack.matrix.feed.places import open_place
from gpustack.matrix.layout import FORMAT
from gpustack.matrix.updates import current
from gpustack.system.asking import TransferError, hide_credentials
from gpustack.system.files import write_atomically

_TRUSTED = "trusted"
_ROOT = "root.json"


class Outcome(Struct, frozen=True, kw_only=True):
    """The result of an update: the date of the published facts, and whether they were installed just now."""

    date: str
    expires: str
    is_new: bool


def update(folder: Path, source: str, trusted_root: Path | None = None) -> Outcome:
    """Install the facts that ``source`` publishes (an address, a folder, one file) into the folder of updates.

    If it fails, the facts in use stay. Raises OldFactsError (exit 8) if they cannot be trusted, GpustackError if they
    cannot be downloaded or stored.
    """
    with only_writer(folder):
        root = _root(folder, trusted_root)
        try:
            with open_place(source) as (fetcher, base):
                return _update(folder, source, root, fetcher, base)
        except DownloadLengthMismatchError as exc:
            raise _untrusted(source, f"a file is longer than the publisher signed: {exc}") from exc
        except DownloadError as exc:
            msg = f"the update cannot be downloaded: {_reason(exc)}"
            raise TransferError(msg, where=hide_credentials(source), hint="try again later, or --from FILE") from exc
        except RepositoryError as exc:
            raise _untrusted(source, str(exc)) from exc
        except OSError as exc:
            raise unwritable(folder, exc) from exc


def client_of(
    folder: Path, root: bytes, fetcher: FetcherInterface, addresses: tuple[str, str], *, roles: int = 4
) -> Updater:
    """python-tuf's client, which keeps what it trusts in a folder; the addresses are those of metadata and targets.

    ``roles`` is how many delegations are followed for one target: a bundle has one.
    """
    metadata, targets = addresses
    return Updater(
        metadata_dir=str(folder),
        metadata_base_url=f"{metadata}/",
        target_base_url=f"{targets.rstrip('/')}/",
        fetcher=fetcher,
        config=UpdaterConfig(max_delegations=roles),
        bootstrap=root,
    )


def _update(folder: Path, source: str, root: bytes, fetcher: FetcherInterface, base: str) -> Outcome:
    trusted = folder / _TRUSTED / hashlib.sha256(root).hexdigest()[:16]
    trusted.mkdir(mode=0o755, parents=True, exist_ok=True)
    updater = client_of(trusted, root, fetcher, (f"{base}/metadata", f"{base}/targets"))
    updater.refresh()
    signed = updater.get_targetinfo(bundles.NAME)
    if signed is None:
        msg = f"no facts of the layout {FORMAT} are published"
        raise OldFactsError(msg, code="update-unusable", where=source, hint="update gpustack, then try again")
    generated = updater.get_targetinfo(bundles.GENERATED_NAME)
    expires = Metadata[Timestamp].from_file(str(trusted / "timestamp.json")).signed.expires
    origin = Origin(
        source=hide_credentials(source),
        installed=_text(datetime.now(timezone.utc)),
        expires=_text(expires),
        targets=tuple(target.hashes["sha256"] for target in (signed, generated) if target is not None),
    )
    return _install(folder, updater, signed, generated, origin)


def _install(
    folder: Path, updater: Updater, signed: TargetFile, generated: TargetFile | None, origin: Origin
) -> Outcome:
    """Store what was verified, or return to a generation that was made of the same files."""
    bundle = bundles.unpack(_download(updater, signed))
    if generated is not None:
        bundle = bundles.combined(bundle, bundles.unpack(_download(updater, generated)))
    bundles.demand_readable(bundle)
    now = current(folder)
    same = next((path for path in kept(folder) if _targets(path) == origin.targets), None)
    if same is None:
        add(folder, bundle, origin)
    else:
        renew(same, origin)
        if same != now:
            switch(folder, same)
    return Outcome(date=bundle.index.date, expires=origin.expires, is_new=same is None or same != now)


def _targets(generation: Path) -> tuple[str, ...]:
    origin = origin_of(generation)
    return origin.targets if origin is not None else ()


def _download(updater: Updater, target: TargetFile) -> bytes:
    if target.length > bundles.LARGEST:
        msg = f"{target.path} has {target.length} bytes; at most {bundles.LARGEST} are read"
        raise RepositoryError(msg)
    with TemporaryDirectory(prefix="gpustack-") as folder:
        return Path(updater.download_target(target, str(Path(folder) / "target"))).read_bytes()


def _root(folder: Path, named: Path | None) -> bytes:
    """The root of trust. Raises UsageError if none is known, or if the named one is not one."""
    remembered = folder / _TRUSTED / _ROOT
    if named is not None:
        try:
            root = named.read_bytes()
            Metadata.from_bytes(root)
        except (OSError, RepositoryError) as exc:
            msg = f"is not a root of trust: {exc}"
            raise UsageError(msg, code="unreadable-file", where=str(named), hint="the publisher's 1.root.json") from exc
        try:
            remembered.parent.mkdir(mode=0o755, exist_ok=True)
            write_atomically(remembered, root.decode())
        except OSError as exc:
            raise unwritable(folder, exc) from exc
        return root
    for place in (resources.folder("trusted") / _ROOT, remembered):
        with suppress(OSError):
            return place.read_bytes()
    msg = "no root of trust is known: this gpustack was built without one"
    hint = "name the one that you got from the publisher on a safe way: --trusted-root FILE"
    raise UsageError(msg, code="no-update-source", hint=hint)


def _untrusted(source: str, reason: str) -> GpustackError:
    msg = f"the update cannot be trusted: {reason}"
    hint = "the facts in use stay; get the update from its publisher again"
    return OldFactsError(msg, code="update-untrusted", where=hide_credentials(source), hint=hint)


def _reason(exc: BaseException) -> str:
    """The cause of a failed download: python-tuf wraps what its transports raise."""
    return str(exc.__cause__ or exc)


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
