"""The architectures that each release of the container toolkit is packaged for, by the jobs of its repository."""

from __future__ import annotations

import re
from collections.abc import Sequence

from update.form import text_of
from update.record import Body, Found, Given, Row, refuse

HAND_OUT = "the targets of packages in the CI files of a tag of NVIDIA/nvidia-container-toolkit"
_ADDRESS = re.compile(r"https://github\.com/NVIDIA/nvidia-container-toolkit/tree/v(\d+\.\d+\.\d+)")
_TARGET = re.compile(r"[a-z]+[\d.]+-([a-z0-9_]+)")
_ARCHES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64", "ppc64le": "ppc64le"}


def rows(bodies: Sequence[Body]) -> Given:
    """One row for each release whose jobs name targets."""
    found = []
    for body in bodies:
        known = _ADDRESS.fullmatch(body.address)
        words = {target[1] if (target := _TARGET.fullmatch(line)) else line for line in text_of(body).split()}
        if known is None or not words or words - set(_ARCHES):
            raise refuse(body.address, f"has packages for {sorted(words)}")
        built = {_ARCHES[word] for word in words}
        arch = [name for name in dict.fromkeys(_ARCHES.values()) if name in built]
        row: Row = {"version": known[1], "arch": arch, "src": ["tags"]}
        found.append(Found("container-toolkit", "releases", row))
    return Given(tuple(found))
