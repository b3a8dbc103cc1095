"""The documents supported-tags.md and unsupported-tags.md of NVIDIA's CUDA images: which tags exist."""

from __future__ import annotations

import re
from collections.abc import Sequence

from update.form import text_of
from update.record import Body, Found, Given, refuse

HAND_OUT = "doc/supported-tags.md and doc/unsupported-tags.md of one copy"
_COPIES = "https://raw.githubusercontent.com"
_FIRST = "pranavmishra90/nvidia-container-images-cuda/60a1c892e6b996382e182b4654e0a3f31aeedbee"
_SECOND = "pdtgct/cuda/e3c1b680f08e358d51d190aaa156bba111e32509"
SOURCES = {f"{_COPIES}/{_FIRST}/doc/": "tags_2025_08", f"{_COPIES}/{_SECOND}/doc/": "tags_2025_12"}
"""The folder of each copy, and the key of its source."""

_TAG = re.compile(r"`(\d+\.\d+\.\d+)-([a-z0-9-]+)-([a-z]+[\d.]+)`")


def rows(bodies: Sequence[Body]) -> Given:
    """One row for each release of CUDA and system."""
    kinds: dict[tuple[str, str], set[str]] = {}
    sources: dict[tuple[str, str], dict[str, None]] = {}
    for body in bodies:
        folder, _, name = body.address.rpartition("/")
        if f"{folder}/" not in SOURCES or name not in {"supported-tags.md", "unsupported-tags.md"}:
            raise refuse(body.address, "is not a list of tags")
        tags = _TAG.findall(text_of(body))
        if not tags:
            raise refuse(body.address, "lists no tag")
        for cuda, kind, system in tags:
            kinds.setdefault((cuda, system), set()).add(kind)
            sources.setdefault((cuda, system), {})[SOURCES[f"{folder}/"]] = None
    return Given(
        tuple(
            Found(
                "cuda-image-tags",
                "tags",
                {"cuda": cuda, "system": system, "kinds": sorted(found), "src": list(sources[cuda, system])},
            )
            for (cuda, system), found in kinds.items()
        )
    )
