"""The image that each release branch of the Triton server names for itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from update.form import text_of
from update.record import Body, Found, Given, refuse

HAND_OUT = "the references of nvcr.io that the files of a release branch of triton-inference-server/server have"
_ADDRESS = re.compile(r"https://github\.com/triton-inference-server/server/tree/r(\d\d\.\d\d)")
_REFERENCE = re.compile(r"nvcr\.io/nvidia/(?:tensorrtserver|tritonserver):(\d\d\.\d\d)-py3")


def rows(bodies: Sequence[Body]) -> Given:
    """One row for each branch: the image with Python backend and clients, which every release has."""
    found = []
    for body in bodies:
        known = _ADDRESS.fullmatch(body.address)
        named = [
            line
            for line in text_of(body).split()
            if (image := _REFERENCE.fullmatch(line)) and known and image[1] == known[1]
        ]
        if known is None or len(set(named)) != 1:
            raise refuse(body.address, "names no image of its release, or several")
        row = {"release": known[1], "variant": "py3", "reference": named[0], "src": ["srv"]}
        found.append(Found("triton", "images", row))
    return Given(tuple(found))
