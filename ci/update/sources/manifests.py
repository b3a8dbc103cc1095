"""The form of a manifest of redistributable archives: its parts, platforms and files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from update.form import BUILD, DATE, MD5, PATH, SHA256, SIZE, json_of, keys, mapping, text
from update.record import Body, Row, refuse

HOME = "https://developer.download.nvidia.com/compute/"


class Listed(NamedTuple):
    """One file of a manifest. ``number`` is the version of its part, ``variant`` the CUDA of the file, "" for none."""

    part: str
    number: str
    platform: str
    variant: str
    file: dict[str, str]


_TOP = ("release_date", "release_label", "release_product")
_PLATFORMS = (
    *("linux-x86_64", "linux-sbsa", "linux-aarch64", "linux-ppc64le", "linux-all"),
    *("windows-x86_64", "windows-arm64", "source"),
)
_PART = ("name", "license", "license_path", "version", "cuda_variant")
_FILE = ("relative_path", "sha256", "md5", "size")
_VARIANT = re.compile(r"cuda\d+(\.\d+)?")


def files(body: Body, product: str, release: str) -> Iterator[Listed]:
    """The files of a manifest. Raises SourceError if it names another release or product, or has an unknown key."""
    manifest = json_of(body)
    text(manifest, "release_date", DATE, body.address)
    if manifest.get("release_label", release) != release or manifest.get("release_product", product) != product:
        raise refuse(body.address, "names another release or product than its address")
    for name, part in manifest.items():
        if name not in _TOP:
            yield from _part(product, name, mapping(part, name))


def _part(product: str, name: str, part: Row) -> Iterator[Listed]:
    keys(part, (*_PART, *_PLATFORMS), name, needed=("name", "version"))
    number = text(part, "version", BUILD, name)
    for platform in (key for key in part if key in _PLATFORMS):
        where = f"{name}: {platform}"
        files = mapping(part[platform], where)
        for variant, file in _variants(files, where):
            yield Listed(name, number, platform, variant, _file(product, platform, mapping(file, where), where))


def _variants(files: Row, where: str) -> Iterator[tuple[str, Any]]:
    """The files of a platform by CUDA; "" for the one that is for no CUDA in particular. A platform may have both."""
    plain = {name: value for name, value in files.items() if not _VARIANT.fullmatch(name)}
    if plain:
        keys(plain, _FILE, where)
        yield "", plain
    yield from ((name, value) for name, value in files.items() if name not in plain)


def _file(product: str, platform: str, file: Row, where: str) -> dict[str, str]:
    keys(file, _FILE, where)
    path = text(file, "relative_path", PATH, where)
    if ".." in path or not {platform, "source"} & set(path.split("/")):
        raise refuse(where, f"relative_path {path} is of another platform")
    text(file, "md5", MD5, where)
    address = f"{HOME}{product}/redist/{path}"
    name = path.rpartition("/")[2]
    sums = {"sha256": text(file, "sha256", SHA256, where), "size": text(file, "size", SIZE, where)}
    return {"method": "zip" if name.endswith(".zip") else "tar", "file": name, "url": address, **sums}
