"""Opening a bundle: a folder that may have been changed in transit, checked completely before any use."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from gpustack.errors import DocumentError, GpustackError, UsageError
from gpustack.install.lock import document as locks
from gpustack.install.options import Progress
from gpustack.install.supply.repository import DEB, RPM, WHEELS
from gpustack.install.supply.signing import CHANGED, dearmored, fingerprint_of, signer_of
from gpustack.model.steps import Artifact
from gpustack.system.hashed import open_regular, sha256_of_file

MANIFEST, LOCK, KEY, ARMOURED = "manifest.json", "lock.json", "key.gpg", "key.asc"
SIGNATURE = f"{MANIFEST}.asc"
FILES = "files"
PARTS = (DEB, RPM, WHEELS, FILES, LOCK, KEY, ARMOURED, SIGNATURE, MANIFEST)
"""The parts of a bundle; the manifest is written last, so a folder without one is not a bundle."""

MOST_MANIFEST = 64 * 2**20
"""Bytes; at a hundred per file, no manifest is larger."""

_MOST_KEY = 64 * 2**10
_MOST_FILES = 500_000
_SHOWN = 20
_UNSIGNED = frozenset({MANIFEST, SIGNATURE})
_KEY_OF_INDEX = f"{RPM}/repodata/repomd.xml.key"
"""The key under the name that zypper expects."""


class File(Struct, frozen=True, kw_only=True):
    """One file of a bundle; ``size`` in bytes."""

    sha256: str
    size: int


class Manifest(Struct, frozen=True, kw_only=True):
    """The content of a bundle, by path, and what is not included.

    ``fingerprint`` is that of the key that signs the manifest and the indexes; ``artifacts`` maps an address to its
    file.
    """

    schema: Literal["gpustack/bundle/v1"] = "gpustack/bundle/v1"
    fingerprint: str
    plan: str
    artifacts: dict[str, str]
    files: dict[str, File]
    left: tuple[str, ...] = ()


class Bundle:
    """An opened bundle: its one key signed the manifest, and the folder contains exactly the manifest's files.

    ``key`` is the armoured public key, ``digest`` the sha256 of the manifest.
    """

    def __init__(self, folder: Path, *, fingerprint: str = "", say: Callable[[str], None] = lambda _text: None) -> None:
        """Hash every file; ``say`` announces it, because it takes a while.

        Raises DocumentError if ``folder`` contains no bundle, GpustackError if it was changed or is signed by another
        key than ``fingerprint``.
        """
        self.folder = Path(os.path.realpath(folder))
        if not (self.folder / MANIFEST).is_file():
            msg = "holds no bundle"
            raise DocumentError(
                msg, code="unreadable-bundle", where=str(folder), hint="`gpustack fetch PLAN.json --to DIR` makes one"
            )
        raw = self._read(MANIFEST, MOST_MANIFEST)
        self.manifest = self._signed(raw, fingerprint)
        self.digest = _sha256(raw)
        self._demand_names()
        size = sum(one.size for one in self.manifest.files.values())
        say(f"checking the bundle: {len(self.manifest.files)} files, {size / 2**20:,.1f} MiB")
        self._demand_whole()
        self.key = self._armoured()
        self.lock = locks.parse(self._read_signed(LOCK), str(self.folder / LOCK))

    def __call__(self, artifact: Artifact, progress: Progress) -> Path:
        """The file of ``artifact``: a ``Downloader`` without a network. Raises GpustackError."""
        name = self.manifest.artifacts.get(artifact.url)
        if name is None:
            msg = "is not in the bundle"
            hint = "the bundle was made for another plan: install the plan of the bundle itself"
            raise GpustackError(msg, code="not-in-bundle", where=artifact.url, hint=hint)
        file = self.manifest.files[name]
        if artifact.sha256 not in {"", file.sha256}:
            msg = f"has the sha256 {file.sha256} in the bundle, and another in the plan"
            raise GpustackError(
                msg, code="checksum-mismatch", where=artifact.url, hint="make the bundle again from this plan"
            )
        progress(file.size, file.size)
        return self.folder / name

    def has(self, part: str) -> bool:
        """Whether it has packages of a kind (``DEB``, ``RPM``, ``WHEELS``)."""
        return any(name.startswith(f"{part}/") for name in self.manifest.files)

    def _signed(self, raw: bytes, pinned: str) -> Manifest:
        """The manifest, once its signature is verified with the bundle's one key."""
        where = str(self.folder / MANIFEST)
        keyring = self._read(KEY, _MOST_KEY)
        try:
            key = fingerprint_of(keyring)
        except ValueError as exc:
            raise GpustackError(str(exc), code="key-refused", where=str(self.folder / KEY), hint=CHANGED) from exc
        signer = signer_of(raw, self._read(SIGNATURE, _MOST_KEY), keyring, where)
        try:
            manifest = msgspec.json.decode(raw, type=Manifest)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            msg = f"is not a bundle manifest: {exc}"
            raise DocumentError(
                msg, code="unreadable-bundle", where=where, hint="a newer gpustack may have made it"
            ) from exc
        if not signer == key == manifest.fingerprint:
            msg = f"is signed by {signer}, the key is {key}, and the manifest names {manifest.fingerprint}"
            raise GpustackError(msg, code="unreadable-bundle", where=where, hint=CHANGED)
        if pinned and pinned != signer:
            msg = f"is signed by the key {signer}, and the key {pinned} is required"
            hint = "compare with the fingerprint that `gpustack fetch` printed; do not install a bundle of another key"
            raise GpustackError(msg, code="unreadable-bundle", where=where, hint=hint)
        return manifest

    def _demand_names(self) -> None:
        """Raise GpustackError if the manifest names a file outside of the bundle's parts, or lacks a required one."""
        files = self.manifest.files
        named = {*files, *self.manifest.artifacts.values()}
        wrong = [repr(name) for name in named if not _is_inside(name)]
        wrong += [f"{name} is missing" for name in (LOCK, KEY, ARMOURED) if name not in files]
        wrong += [f"{name} is missing" for name in self.manifest.artifacts.values() if name not in files]
        if len(files) > _MOST_FILES:
            wrong.append(f"it has more than {_MOST_FILES:,} files")
        self._refuse("the manifest names what no bundle holds", sorted(wrong))

    def _demand_whole(self) -> None:
        """Raise GpustackError with every file that is missing, changed, irregular, or not in the manifest."""
        files, there = self.manifest.files, set()
        wrong = []
        for name, entry in _walk(self.folder):
            if not stat.S_ISREG(entry.st_mode):
                wrong.append(f"{name!r} is a link, a device, a pipe or a socket")
            elif name in files:
                there.add(name)
                if files[name].size != entry.st_size:
                    wrong.append(f"{name} has {entry.st_size} bytes, and {files[name].size} were signed")
            elif name not in _UNSIGNED:
                wrong.append(f"{name!r} is not in the manifest")
        wrong += [f"{name} is missing" for name in files.keys() - there]
        # Hash only if nothing else is wrong: that takes minutes, and a pipe has no end.
        wrong = wrong or [fault for name in files if (fault := self._fault(name))]
        self._refuse("files of the bundle are not those that were signed", sorted(wrong))

    def _fault(self, name: str) -> str:
        """What is wrong with the content of a file, "" if nothing is."""
        try:
            is_same = sha256_of_file(self.folder / name) == self.manifest.files[name].sha256
        except OSError as exc:
            return f"{name} cannot be read: {exc.strerror or exc}"
        return "" if is_same else f"{name} differs from what was signed"

    def _refuse(self, why: str, wrong: list[str]) -> None:
        if wrong:
            more = [f"and {len(wrong) - _SHOWN} more"] if len(wrong) > _SHOWN else []
            msg = f"{why}:\n" + "\n".join([*wrong[:_SHOWN], *more])
            raise GpustackError(msg, code="bundle-damaged", where=str(self.folder), hint=CHANGED)

    def _armoured(self) -> str:
        """key.asc, once it is known to be the same key as key.gpg, and the copy for zypper too."""
        text = self._read_signed(ARMOURED).decode("utf-8", "replace")
        try:
            is_same = dearmored(text) == self._read_signed(KEY)
        except ValueError:
            is_same = False
        files = self.manifest.files
        if not is_same or files.get(_KEY_OF_INDEX, files[ARMOURED]).sha256 != files[ARMOURED].sha256:
            msg = f"is not the key of {KEY}"
            raise GpustackError(msg, code="key-refused", where=str(self.folder / ARMOURED), hint=CHANGED)
        return text

    def _read_signed(self, name: str) -> bytes:
        """The content of a file in the manifest. Raises GpustackError if it has changed since."""
        content = self._read(name, MOST_MANIFEST)
        if _sha256(content) != self.manifest.files[name].sha256:
            msg = "differs from what was signed"
            raise GpustackError(msg, code="bundle-damaged", where=str(self.folder / name), hint=CHANGED)
        return content

    def _read(self, name: str, most: int) -> bytes:
        """The content of a regular file of limited size. Raises GpustackError."""
        path = self.folder / name
        try:
            with open_regular(path) as file:
                content = file.read(most + 1)
        except OSError as exc:
            msg = f"cannot be read: {exc.strerror or exc}"
            raise GpustackError(msg, code="bundle-damaged", where=str(path), hint=CHANGED) from exc
        if len(content) > most:
            msg = f"is larger than {most / 2**20:g} MiB"
            raise GpustackError(msg, code="bundle-damaged", where=str(path), hint=CHANGED)
        return content


def parse_fingerprint(text: str) -> str:
    """A full fingerprint in gpg's spelling, with or without spaces. Raises UsageError."""
    plain = re.sub(r"[\s:]", "", text).upper().removeprefix("0X")
    if not re.fullmatch(r"[0-9A-F]{40}", plain):
        msg = f"{text!r} is not a full fingerprint (40 hexadecimal digits)"
        raise UsageError(
            msg,
            code="invalid-value",
            where="--fingerprint",
            hint="`gpustack fetch` prints the fingerprint of the bundle that it makes",
        )
    return plain


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _is_inside(name: str) -> bool:
    """Whether a name is that of a file in one of the bundle's parts, and unambiguous for every program."""
    parts = name.split("/")
    is_plain = name.isprintable() and "\\" not in name and not {"", ".", ".."}.intersection(parts)
    return is_plain and parts[0] in PARTS and name not in _UNSIGNED


def _walk(folder: Path, front: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Every entry below a folder except folders, by its name; links are not followed. Raises GpustackError."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda one: one.name)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path), f"{front}{entry.name}/")
            else:
                yield f"{front}{entry.name}", entry.stat(follow_symlinks=False)
    except OSError as exc:
        msg = f"cannot be read: {exc.strerror or exc}"
        raise GpustackError(
            msg, code="unreadable-bundle", where=str(folder), hint="the bundle must be readable"
        ) from exc
