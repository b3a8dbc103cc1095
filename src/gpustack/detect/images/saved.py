"""OCI layouts and saved images (`docker save`, `skopeo copy`): configuration and layers, found by the manifests."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from gpustack.detect.images.configs import arch_of, of_document
from gpustack.detect.images.inside import with_files
from gpustack.detect.images.layers import DAMAGED, Budget, Layer, members, merged, read_layer, take
from gpustack.model.image import ImageContent
from gpustack.patterns import later

MOST = 4 << 20
"""The longest document that is read, in bytes."""

MAX_DOCUMENTS = 2000
MAX_LAYERS = 1000
MAX_DEPTH = 4
_DIGEST = later(r"sha(256|512):[0-9a-f]{64,128}")

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

    def layers(wanted: list[str], budget: Budget) -> dict[str, Layer]:
        found = {}
        for name in wanted:
            place = (root / name).resolve()
            if place.is_relative_to(root) and place.is_file():
                with place.open("rb") as raw:
                    found[name] = read_layer(raw, budget)
        return found

    content, wanted = _of_index(str(folder), get, platform, "OCI layout")
    return _with_layers(content, wanted, layers)


def read_saved(path: Path, platform: str) -> ImageContent:
    """The image of an archive. Raises ValueError, OSError."""
    budget = Budget()
    try:
        documents, links = _documents(path, budget)
    except DAMAGED as exc:
        if isinstance(exc, OSError) and exc.errno is not None:
            raise
        msg = f"is not a complete archive: {exc}"
        raise ValueError(msg) from exc

    def get(name: str) -> bytes:
        return documents[name]

    def layers(wanted: list[str], budget: Budget) -> dict[str, Layer]:
        targets = {links.get(name, name) for name in wanted}
        found = {}
        with path.open("rb") as raw:
            for member, opened in members(raw, budget):
                name = member.name.removeprefix("./")
                if name in targets and member.isreg():
                    found[name] = read_layer(opened(), budget)
        return {name: found[links.get(name, name)] for name in wanted if links.get(name, name) in found}

    if "index.json" in documents:
        content, wanted = _of_index(str(path), get, platform, "saved image")
        return _with_layers(content, wanted, layers)
    if "manifest.json" not in documents:
        msg = "is an archive without an image (no manifest.json, no index.json)"
        raise ValueError(msg)
    config, wanted = _of_manifest(documents, platform)
    return _with_layers(of_document(str(path), config, form="saved image"), wanted, layers)


def _of_manifest(documents: dict[str, bytes], platform: str) -> tuple[dict[str, Any], list[str]]:
    """The configuration that docker's manifest names, and its layers, the lowest first."""
    images = [
        (_decoded(documents[name], dict[str, Any]), one.get("Layers"))
        for one in _decoded(documents["manifest.json"], list[Any])
        if isinstance(one, dict) and isinstance(name := one.get("Config"), str) and name in documents
    ]
    if not images:
        msg = "its manifest names no configuration in it"
        raise ValueError(msg)
    config, layers = next((one for one in images if arch_of(one[0]) == platform), images[0])
    return config, [one for one in layers if isinstance(one, str)] if isinstance(layers, list) else []


def _with_layers(
    content: ImageContent, wanted: list[str], read: Callable[[list[str], Budget], dict[str, Layer]]
) -> ImageContent:
    """The content with what is in its layers, or why they could not be read."""
    if not wanted:
        return content
    try:
        if len(wanted) > MAX_LAYERS:
            return replace(content, layers="it has more layers than any image")
        found = read(wanted, Budget())
    except (ValueError, RecursionError) as exc:
        return replace(content, layers=f"one {exc}")
    except DAMAGED as exc:
        return replace(content, layers=f"one cannot be read: {exc}")
    if len(found) < len(set(wanted)):
        return replace(content, layers="not all of them are in the file")
    return with_files(content, merged([found[name] for name in wanted]))


def _documents(path: Path, budget: Budget) -> tuple[dict[str, bytes], dict[str, str]]:
    """The small JSON files of an archive, by their path; and its links, with the path that each leads to."""
    found: dict[str, bytes] = {}
    links: dict[str, str] = {}
    with path.open("rb") as raw:
        for member, opened in members(raw, budget):
            name = member.name.removeprefix("./")
            if len(found) + len(links) > MAX_DOCUMENTS:
                msg = "holds more documents than any image"
                raise ValueError(msg)
            if member.issym():
                links[name] = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.linkname))
            if member.isreg() and 2 <= member.size <= MOST:
                stream = opened()
                head = stream.read(1)
                if head in {b"{", b"["}:
                    found[name] = head + take(stream, MOST)
    return found, links


_T = TypeVar("_T", list[Any], dict[str, Any])


def _decoded(data: bytes, kind: type[_T]) -> _T:
    try:
        found: _T = msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as exc:
        msg = f"holds a document of another schema: {exc}"
        raise ValueError(msg) from exc
    return found


def _of_index(name: str, get: _Get, platform: str, form: str) -> tuple[ImageContent, list[str]]:
    """The content by its configuration, and the paths of its layers, the lowest first."""
    try:
        index = _decoded(get("index.json"), dict[str, Any])
        for _ in range(MAX_DEPTH):
            chosen = _chosen(index, platform)
            document = _decoded(get(_blob(chosen)), dict[str, Any])
            if "manifests" not in document:
                config = document.get("config")
                if not isinstance(config, dict):
                    break
                content = of_document(name, _decoded(get(_blob(config)), dict[str, Any]), form=form)
                layers = document.get("layers")
                return content, [_blob(one) for one in layers if isinstance(one, dict)] if isinstance(
                    layers, list
                ) else []
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
