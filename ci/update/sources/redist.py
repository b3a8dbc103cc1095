"""Manifests of redistributable archives (redistrib_VERSION.json) of CUDA, cuDNN, TensorRT and the driver.

Two forms exist: with one file for each platform, and with one for each CUDA that a platform has archives for. A
manifest counts if its sha256 stands in the facts already (``cuda-manifests``, ``cudnn-archives``): a person compared it
with a second place that publishes it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from update.form import json_of
from update.record import Body, Found, Given, Proof, Row, refuse
from update.sources.manifests import HOME, Listed, files

HAND_OUT = "redistrib_VERSION.json, byte for byte, below the address of its product"
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
    listed = files(body, product, release)
    if product == "cudnn":
        return [_of_cudnn(one) for one in listed if one.part == "cudnn"]
    return [_of_cuda(release, one) for one in listed if one.part not in OF_THE_DRIVER]


def _of_cuda(release: str, one: Listed) -> Row:
    about: Row = {"component": "cuda", "version": release, "method": one.file["method"], "part": one.part}
    about["platform"] = one.platform
    if one.variant:
        about["cuda"] = one.variant.removeprefix("cuda")
    return {**about, **{name: one.file[name] for name in ("file", "url", "sha256", "size")}, "src": ["manifest"]}


def _of_cudnn(one: Listed) -> Row:
    top = re.sub(r"\.(tar\.xz|zip)$", "", one.file["file"])
    about: Row = {"version": one.number, "component": "cudnn", "part": one.part, "platform": one.platform}
    named = re.search(r"_cuda(\d+(?:\.\d+)*)-archive", one.file["file"])
    if cuda := one.variant.removeprefix("cuda") or (named[1] if named else ""):
        about["cuda"] = cuda
    return {**about, **one.file, "top_dir": top, "src": ["redist"]}
