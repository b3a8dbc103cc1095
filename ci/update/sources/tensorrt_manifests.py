"""Manifests of TensorRT's archives: NVIDIA publishes none, the maintainers of nixpkgs write them by hand.

Their sums are theirs: they confirm rows of the facts, and a person decides whether a missing one is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from update.form import DATE, MD5, PATH, SHA256, SIZE, VERSION, json_of, keys, mapping, text
from update.record import Body, Found, Given, Row, refuse

HAND_OUT = "redistrib_VERSION.json of the folder tensorrt of cuda-legacy or nixpkgs"
HOME = "https://developer.nvidia.com/downloads/compute/machine-learning/"
_ADDRESS = re.compile(r"https://github\.com/.+/manifests/tensorrt/redistrib_(\d+(?:\.\d+)+)\.json")
_TOP = ("release_date", "release_label", "release_product", "tensorrt")
_PART = ("name", "license", "version", "cuda_variant", *(f"linux-{one}" for one in ("x86_64", "sbsa", "aarch64")))
_FILE = ("relative_path", "sha256", "md5", "size")
_NAME = re.compile(
    r"tensorrt/[\d.]+/(?:tars|zip)/"
    r"(TensorRT-(?:Enterprise-)?(\d+(?:\.\d+)+)[.-][\w.-]+[.-]cuda-(\d+\.\d+)(?:-Release-external)?\.(?:tar\.gz|tar\.zst|zip))"
)


def rows(bodies: Sequence[Body]) -> Given:
    """One row for each archive."""
    return Given(tuple(Found("tensorrt-archives", "archives", row) for body in bodies for row in _files(body)))


def _files(body: Body) -> Iterator[Row]:
    known = _ADDRESS.fullmatch(body.address)
    manifest = json_of(body)
    keys(manifest, _TOP, body.address, needed=("tensorrt",))
    if "release_date" in manifest:
        text(manifest, "release_date", DATE, body.address)
    if known is None or manifest.get("release_label", known[1]) != known[1]:
        raise refuse(body.address, "names another release or product than its address")
    part = mapping(manifest["tensorrt"], body.address)
    keys(part, (*_PART, "windows-x86_64"), body.address, needed=("version",))
    number = text(part, "version", VERSION, body.address)
    for platform in (name for name in part if "-" in name):
        for variant, file in mapping(part[platform], platform).items():
            yield _row(number, platform, variant, mapping(file, f"{body.address}: {platform} {variant}"))


def _row(number: str, platform: str, variant: str, file: Row) -> Row:
    where = f"TensorRT {number} {platform} {variant}"
    keys(file, _FILE, where, needed=_FILE)
    path = text(file, "relative_path", PATH, where)
    named = _NAME.fullmatch(path)
    if named is None or named[2] != number or not re.fullmatch(r"cuda\d+", variant):
        raise refuse(where, f"has the path {path}")
    text(file, "md5", MD5, where)
    text(file, "size", SIZE, where)
    about = {"component": "tensorrt", "version": number, "platform": platform, "part": "tensorrt", "cuda": named[3]}
    kind = {"method": "zip" if path.endswith(".zip") else "tar", "file": named[1], "url": HOME + path}
    return {**about, **kind, "sha256": text(file, "sha256", SHA256, where), "src": ["nix_manifests"]}
