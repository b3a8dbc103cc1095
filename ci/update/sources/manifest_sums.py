"""Sums of the manifests of CUDA and cuDNN that google-ml-infra/rules_ml_toolchain pins: a second place for each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from update.form import text_of
from update.record import Body, Found, Given, Row, refuse

HAND_OUT = "gpu/cuda/cuda_redist_versions.bzl of google-ml-infra/rules_ml_toolchain, the two tables of manifests alone"
_ADDRESS = re.compile(r"https://github\.com/google-ml-infra/rules_ml_toolchain/blob/[0-9a-f]+/gpu/cuda/\w+\.bzl")
_PINNED = re.compile(
    r'"https://developer\.download\.nvidia\.com/compute/(cuda|cudnn)/redist/(redistrib_(\d+(?:\.\d+){1,3})\.json)",'
    r'\s+"([0-9a-f]{64})"'
)


def rows(bodies: Sequence[Body]) -> Given:
    """One row for each manifest, of CUDA and of cuDNN."""
    found: list[Found] = []
    for body in bodies:
        pinned = _PINNED.findall(text_of(body))
        if not _ADDRESS.fullmatch(body.address) or not pinned:
            raise refuse(body.address, "pins no manifest")
        for product, file, release, sha256 in pinned:
            row: Row = {"version": release, "sha256": sha256, "src": ["rml"]}
            if product == "cuda":
                found.append(Found("cuda-installers", "manifest_sums", row))
            else:
                found.append(Found("cudnn-archives", "manifests", {"manifest": file, **row}))
    return Given(tuple(found))
