"""OCI layouts and saved images (`docker save`, `skopeo copy`): the configuration, found through the manifests."""

from __future__ import annotations

import re
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gpustack.detect.images.configs import arch_of, of_document
from gpustack.model.image import ImageContent

MOST = 4 << 20
"""The longest document that is read, in bytes."""

MAX_MEMBERS = 200_000
MAX_DOCUMENTS = 2000
MAX_UNPACKED = 32 << 30
"""Of a compressed archive so many bytes are unpacked, without being kept."""

MAX_DEPTH = 4
_DIGEST = re.compile(r"sha(256|512):[0-9a-f]{64,128}")

_Get = Callable[[str], bytes]
"""Returns the content of a file by its path in the layout; raises KeyError."""


def read_layout(folder: Path, platform: str) -> ImageContent:
    """The image of an OCI layout. Raises ValueError, OSError."""
    root = folder.resolve()

    def get(name: str) -> bytes:
        place = (root / name).resolve()
        if not place.is_relative_to(root) or not place.is_file():
            raise KeyError(name)
        if place.stat().st_size > MOST:
            msg = f"{name} is longer than {MOST} bytes"
            raise ValueError(msg)
        return place.read_bytes()

    return _of_index(str(folder), get, platform, "OCI layout")


def read_saved(path: Path, platform: str) -> ImageContent:
    """The image of an archive. Raises ValueError, OSError."""
    try:
        documents = _documents(path)
    except (tarfile.TarError, EOFError, zlib.error) as exc:
        msg = f"is not a complete archive: {exc}"
        raise ValueError(msg) from exc

    def get(name: str) -> bytes:
        return documents[name]

    if "index.json" in documents:
        return _of_index(str(path), get, platform, "saved image")
    if "manifest.json" not in documents:
        msg = "is an archive without an image (no manifest.json, no index.json)"
        raise ValueError(msg)
    manifests = _decoded(documents["manifest.json"], list[Any])
    names = [one.get("Config") for one in manifests if isinstance(one, dict)]
    configs = [
        _decoded(documents[name], dict[str, Any]) for name in names if isinstance(name, str) and name in documents
    ]
    if not configs:
        msg = "its manifest names no configuration in it"
        raise ValueError(msg)
    chosen = next((one for one in configs if arch_of(one) == platform), configs[0])
    return of_document(str(path), chosen, form="saved image")


def _documents(path: Path) -> dict[str, bytes]:
    """The small JSON files of an archive, by their path."""
    found: dict[str, bytes] = {}
    unpacked = 0
    with tarfile.open(path, "r:*") as archive:
        for count, member in enumerate(archive):
            unpacked += member.size
            if count > MAX_MEMBERS or len(found) > MAX_DOCUMENTS or unpacked > MAX_UNPACKED:
                msg = "is larger than any image"
                raise ValueError(msg)
            if not member.isreg() or not 2 <= member.size <= MOST:
                continue
            stream = archive.extractfile(member)
            if stream is None:
                continue
            head = stream.read(1)
            if head in {b"{", b"["}:
                found[member.name.removeprefix("./")] = head + stream.read(MOST)
    return found


_T = TypeVar("_T", list[Any], dict[str, Any])


def _decoded(data: bytes, kind: type[_T]) -> _T:
    try:
        found: _T = msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as exc:
        msg = f"holds a document of another schema: {exc}"
        raise ValueError(msg) from exc
    return found


def _of_index(name: str, get: _Get, platform: str, form: str) -> ImageContent:
    try:
        index = _decoded(get("index.json"), dict[str, Any])
        for _ in range(MAX_DEPTH):
            chosen = _chosen(index, platform)
            document = _decoded(get(_blob(chosen)), dict[str, Any])
            if "manifests" not in document:
                config = document.get("config")
                if not isinstance(config, dict):
                    break
                return of_document(name, _decoded(get(_blob(config)), dict[str, Any]), form=form)
            index = document
    except KeyError as exc:
        msg = f"{exc.args[0]} is missing in it"
        raise ValueError(msg) from exc
    msg = "its index leads to no image"
    raise ValueError(msg)


def _chosen(index: dict[str, Any], platform: str) -> dict[str, Any]:
    """The manifest for the platform, else the first; attestations, which name no platform, are passed over."""
    listed = index.get("manifests")
    manifests = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    if not manifests:
        msg = "its index names no manifest"
        raise ValueError(msg)
    for one in manifests:
        told = one.get("platform")
        if isinstance(told, dict) and told.get("os") == "linux" and arch_of(told) == platform:
            return one
    return manifests[0]


def _blob(descriptor: dict[str, Any]) -> str:
    digest = descriptor.get("digest")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        msg = "a descriptor in it has no digest"
        raise ValueError(msg)
    kind, _, number = digest.partition(":")
    return f"blobs/{kind}/{number}"
