"""Manifests of redistributable archives (redistrib_VERSION.json) of CUDA, cuDNN, TensorRT and the driver.

Two forms exist: with one file for each platform, and with one for each CUDA that a platform has archives for. A
manifest counts if its sha256 stands in the facts already (``cuda-manifests``, ``cudnn-archives``): a person compared it
with a second place that publishes it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from update.form import BUILD, DATE, MD5, PATH, SHA256, SIZE, json_of, keys, mapping, text
from update.record import Body, Found, Given, Proof, Row, refuse

HAND_OUT = "redistrib_VERSION.json, byte for byte, below the address of its product"
HOME = "https://developer.download.nvidia.com/compute/"
PRODUCTS = {"cuda": ("cuda", "cuda-redist"), "cudnn": ("cudnn", "cudnn-archives")}
"""The folder of a product's manifests: its component, and the subject with its archives."""

_RELEASES = {"cuda": "redist_manifest", "cudnn": "redist"}
MANIFESTS = {"cuda-redist": ("cuda-manifests", "manifests"), "cudnn-archives": ("cudnn-archives", "manifests")}
"""Where the facts keep the sums of the manifests."""

OF_THE_DRIVER = frozenset(
    {
        *("driver_assistant", "fabricmanager", "imex", "libnvidia_nscq", "libnvsdm"),
        *("nvidia_driver", "nvidia_fs", "nvidia_imex", "nvlsm"),
    }
)
"""Parts of the manifests of CUDA that belong to the driver and not to the toolkit."""

_ADDRESS = re.compile(re.escape(HOME) + r"(cuda|cudnn)/redist/redistrib_(\d+(?:\.\d+)+)\.json")
_TOP = ("release_date", "release_label", "release_product")
_PLATFORMS = (
    *("linux-x86_64", "linux-sbsa", "linux-aarch64", "linux-ppc64le", "linux-all"),
    *("windows-x86_64", "windows-arm64", "source"),
)
_PART = ("name", "license", "license_path", "version", "cuda_variant")
_FILE = ("relative_path", "sha256", "md5", "size")
_VARIANT = re.compile(r"cuda\d+(\.\d+)?")


def rows(bodies: Sequence[Body]) -> Given:
    """The archives of every manifest."""
    found: list[Found] = []
    proofs: list[Proof] = []
    covers: list[tuple[str, str, Row]] = []
    for body in bodies:
        product, release = place(body)
        subject = PRODUCTS[product][1]
        mine = [Found(subject, "archives", row) for row in parse(body)]
        found += mine
        found += [Found(product, "releases", row) for row in _releases(body, product, release, mine)]
        versions = {(one.row["version"], tuple(one.row["src"])) for one in mine}
        covers += [(subject, "archives", {"version": version, "src": list(src)}) for version, src in versions]
        sha256 = hashlib.sha256(body.data).hexdigest()
        proofs += [Proof(subject, version, MANIFESTS[subject], release, sha256) for version, _ in versions]
    return Given(tuple(found), tuple(covers), tuple(proofs))


def _releases(body: Body, product: str, release: str, archives: list[Found]) -> list[Row]:
    """The release of a manifest, by the version that its archives have; cuDNN's manifests were written anew in 2024."""
    day = json_of(body)["release_date"]
    versions = dict.fromkeys(one.row["version"] for one in archives) if product == "cudnn" else {release: None}
    date = {"date": day} if product == "cuda" else {}
    return [{"version": version, **date, "src": [_RELEASES[product]]} for version in versions]


def place(body: Body) -> tuple[str, str]:
    """The product and the release of a manifest, by its address."""
    known = _ADDRESS.fullmatch(body.address)
    if known is None:
        raise refuse(body.address, "is not the address of a manifest")
    return known[1], known[2]


def parse(body: Body) -> list[Row]:
    """The rows of one manifest."""
    product, release = place(body)
    manifest = json_of(body)
    text(manifest, "release_date", DATE, body.address)
    if manifest.get("release_label", release) != release or manifest.get("release_product", product) != product:
        raise refuse(body.address, "names another release or product than its address")
    parts = {name: part for name, part in manifest.items() if name not in _TOP}
    return [row for name, part in parts.items() for row in _part(product, release, name, mapping(part, name))]


def _part(product: str, release: str, name: str, part: Row) -> Iterator[Row]:
    keys(part, (*_PART, *_PLATFORMS), name, needed=("name", "version"))
    number = text(part, "version", BUILD, name)
    for platform in (key for key in part if key in _PLATFORMS):
        where = f"{name}: {platform}"
        files = mapping(part[platform], where)
        for variant, file in _variants(files, where):
            made = _file(product, platform, mapping(file, where), where)
            if product == "cudnn" and name == "cudnn":
                yield _of_cudnn(number, name, platform, variant, made)
            elif product == "cuda" and name not in OF_THE_DRIVER:
                yield _of_cuda(release, name, platform, variant, made)


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


def _of_cuda(release: str, part: str, platform: str, variant: str, file: dict[str, str]) -> Row:
    place_of: dict[str, Any] = {"part": part, "platform": platform}
    if variant:
        place_of["cuda"] = variant.removeprefix("cuda")
    method = {"method": file["method"]}
    rest = {name: file[name] for name in ("file", "url", "sha256", "size")}
    return {"component": "cuda", "version": release, **method, **place_of, **rest, "src": ["manifest"]}


def _of_cudnn(number: str, part: str, platform: str, variant: str, file: dict[str, str]) -> Row:
    top = re.sub(r"\.(tar\.xz|zip)$", "", file["file"])
    found: Row = {"version": number, "component": "cudnn", "part": part, "platform": platform}
    named = re.search(r"_cuda(\d+(?:\.\d+)*)-archive", file["file"])
    if cuda := variant.removeprefix("cuda") or (named[1] if named else ""):
        found["cuda"] = cuda
    rest = {name: file[name] for name in ("method", "file", "url", "sha256", "size")}
    return {**found, **rest, "top_dir": top, "src": ["redist"]}
